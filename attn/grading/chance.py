"""Notice what a call does to the global random generators."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy.random as numpys
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
    state = numpys.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        torch.set_rng_state(own)
        random.setstate(python)
        numpys.set_state(state)  # noqa: NPY002


def states() -> dict[str, Any]:
    """Return the states of the global generators, to be compared."""
    keys: Any
    _, keys, *rest = numpys.get_state()  # noqa: NPY002
    return {
        "PyTorch's": torch.get_rng_state().numpy().tobytes(),
        "Python's": random.getstate(),
        "NumPy's": (keys.tobytes(), *rest),
    }


def used(before: dict[str, Any], after: dict[str, Any]) -> frozenset[str]:
    """Return whose generators were drawn from, or seeded, in between."""
    return frozenset(k for k, x in after.items() if before[k] != x)
