"""Notice what a call does to the global random generators."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_SEED = 271_828_182_845  # none that an answer would set


def seed() -> None:
    """Seed what CPUs draw from.

    ``torch.manual_seed`` also notes where it was called, for each kind of
    accelerator: that is half the time of making a module.
    """
    torch.default_generator.manual_seed(_SEED)


@contextmanager
def generators_kept() -> Iterator[None]:
    """Put the global generators back at the end."""
    own, python = torch.get_rng_state(), random.getstate()
    numpy = sys.modules.get("numpy.random")
    numpys = numpy.get_state() if numpy else None
    try:
        yield
    finally:
        torch.set_rng_state(own)
        random.setstate(python)
        if numpy:
            numpy.set_state(numpys)


def states() -> dict[str, Any]:
    """Return the states of the global generators, to be compared."""
    found: dict[str, Any] = {
        "PyTorch's": torch.get_rng_state().numpy().tobytes(),
        "Python's": random.getstate(),
    }
    if numpy := sys.modules.get("numpy.random"):
        _, keys, *rest = numpy.get_state()
        found["NumPy's"] = (keys.tobytes(), *rest)
    return found


def used(before: dict[str, Any], after: dict[str, Any]) -> frozenset[str]:
    """Return whose generators were drawn from, or seeded, in between."""
    return frozenset(k for k, x in after.items() if before.get(k, x) != x)
