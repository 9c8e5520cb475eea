"""Notice what a call does to the global random generators."""

from __future__ import annotations

import random
from types import TracebackType
from typing import Any

import numpy.random as numpys
import torch
from numpy.random.mtrand import get_bit_generator, set_bit_generator

_SEED = 271_828_182_845  # none that an answer would set

#: NumPy's own, taken before there is any answer. The state of one that an
#: answer puts in its place is never read: that could run the answer's code.
_NUMPYS = get_bit_generator()
_THEIR_KINDS = (
    numpys.MT19937,
    numpys.PCG64,
    numpys.PCG64DXSM,
    numpys.Philox,
    numpys.SFC64,
)
_REPLACED = "another generator"


class Generators:
    """The global generators: what draws from them; put back at the end.

    To read Python's or NumPy's takes longer than many a call under test: they
    are read when they may have changed, and written when they have.
    """

    def __enter__(self) -> Generators:
        self._found = get_bit_generator()
        if self._found is not _NUMPYS:
            set_bit_generator(_NUMPYS)
        self._torch = torch.get_rng_state()
        self._python, self._numpy = _states()
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
        before, self._now = self._now, _comparable(*_states())
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
            if get_bit_generator() is not _NUMPYS:
                set_bit_generator(_NUMPYS)
            numpys.set_state(self._numpy)  # noqa: NPY002
        # A generator of another class is not put back: it would run code.
        if self._found is not _NUMPYS and type(self._found) in _THEIR_KINDS:
            set_bit_generator(self._found)


def _states() -> tuple[Any, Any]:
    """Return the states of Python's and of NumPy's generator."""
    is_own = get_bit_generator() is _NUMPYS
    numpy = numpys.get_state() if is_own else _REPLACED  # noqa: NPY002
    return random.getstate(), numpy


def _comparable(python: Any, numpy: Any) -> dict[str, Any]:
    if numpy is not _REPLACED:
        _, keys, *rest = numpy
        numpy = keys.tobytes(), *rest
    return {"PyTorch's": _torchs(), "Python's": python, "NumPy's": numpy}


def _torchs() -> bytes:
    return torch.get_rng_state().numpy().tobytes()
