"""Notice what a call does to the global random generators."""

from __future__ import annotations

import random
from types import TracebackType
from typing import Any

import numpy.random as numpys
import torch

_SEED = 271_828_182_845  # none that an answer would set


class Generators:
    """The global generators: what draws from them; put back at the end.

    To read Python's or NumPy's takes longer than many a call under test: they
    are read when they may have changed, and written when they have.
    """

    def __enter__(self) -> Generators:
        self._torch = torch.get_rng_state()
        self._python = random.getstate()
        self._numpy = numpys.get_state()  # noqa: NPY002
        self._now = self._first = _comparable(self._python, self._numpy)
        return self

    def seed(self) -> None:
        """Seed what CPUs draw from.

        ``torch.manual_seed`` also notes where it was called, for each kind
        of accelerator: that is half the time of making a module.
        """
        torch.default_generator.manual_seed(_SEED)
        self._now = {**self._now, "PyTorch's": _torchs()}

    def changed(self) -> frozenset[str]:
        """Return whose were drawn from, or seeded, since the last time."""
        state = numpys.get_state()  # noqa: NPY002
        before, self._now = self._now, _comparable(random.getstate(), state)
        return frozenset(k for k, x in self._now.items() if before[k] != x)

    def __exit__(
        self,
        error: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if error:
            self.changed()
        torch.set_rng_state(self._torch)
        if self._now["Python's"] != self._first["Python's"]:
            random.setstate(self._python)
        if self._now["NumPy's"] != self._first["NumPy's"]:
            numpys.set_state(self._numpy)  # noqa: NPY002


def _comparable(python: Any, numpy: Any) -> dict[str, Any]:
    _, keys, *rest = numpy
    return {
        "PyTorch's": _torchs(),
        "Python's": python,
        "NumPy's": (keys.tobytes(), *rest),
    }


def _torchs() -> bytes:
    return torch.get_rng_state().numpy().tobytes()
