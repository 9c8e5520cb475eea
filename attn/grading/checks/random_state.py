"""Notice what a call does to the global random generators."""

from __future__ import annotations

import ctypes
import random
from types import TracebackType
from typing import Any, Literal

import numpy.random as numpys
import torch
from numpy.random.mtrand import get_bit_generator, set_bit_generator

Library = Literal["PyTorch", "Python", "NumPy"]
"""A library by the global generator that is its own."""

_SEED = 271_828_182_845  # none that an answer would set

#: NumPy's own, taken before there is any answer. The state of one that an
#: answer puts in its place is never read: that could run the answer's code.
_NUMPY = get_bit_generator()
_NUMPY_CLASSES = (
    numpys.MT19937,
    numpys.PCG64,
    numpys.PCG64DXSM,
    numpys.Philox,
    numpys.SFC64,
)
_REPLACED = "another generator"
_WORDS = ctypes.c_uint32 * 625  # of MT19937: its key, and a position in it


class Generators:
    """The global generators: what draws from them; put back at the end.

    To read Python's or NumPy's takes longer than many a call under test: they
    are read when they may have changed, and written when they have.
    """

    def __enter__(self) -> Generators:
        self._installed = get_bit_generator()
        if self._installed is not _NUMPY:
            set_bit_generator(_NUMPY)
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
        self._now = {**self._now, "PyTorch": _torch_state()}

    def changed(self) -> frozenset[Library]:
        """Return which were drawn from, or seeded, since the last time."""
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
        if self._now["Python"] != self._first["Python"]:
            random.setstate(self._python)
        if self._now["NumPy"] != self._first["NumPy"]:
            if get_bit_generator() is not _NUMPY:
                set_bit_generator(_NUMPY)
            numpys.set_state(self._numpy)
        # A generator of another class is not put back: it would run code.
        installed = self._installed
        if installed is not _NUMPY and type(installed) in _NUMPY_CLASSES:
            set_bit_generator(installed)


def _states() -> tuple[Any, Any]:
    """Return the states of Python's and of NumPy's generator."""
    is_own = get_bit_generator() is _NUMPY
    return random.getstate(), _numpy.state() if is_own else _REPLACED


class _NumPyState:
    """NumPy's state, read again when its memory has changed.

    To read it takes longer than many a call under test; to compare memory, a
    microsecond. Half of a pair of normal numbers is kept elsewhere. Where
    there was none, only a draw that changes the memory makes one.
    """

    def __init__(self) -> None:
        self._memory: Any = None
        if isinstance(_NUMPY, numpys.MT19937):
            self._memory = _WORDS.from_address(_NUMPY.ctypes.state_address)
        self._read: tuple[bytes, Any] | None = None

    def state(self) -> Any:
        if self._memory is None:
            return numpys.get_state()
        memory = bytes(self._memory)
        if self._read is None or self._read[0] != memory:
            state: Any = numpys.get_state()  # of MT19937 a tuple
            self._read = None if state[3] else (memory, state)
            return state
        return self._read[1]


_numpy = _NumPyState()


def _comparable(python: Any, numpy: Any) -> dict[Library, Any]:
    if numpy is not _REPLACED:
        _, keys, *rest = numpy
        numpy = keys.tobytes(), *rest
    return {"PyTorch": _torch_state(), "Python": python, "NumPy": numpy}


def _torch_state() -> bytes:
    return torch.get_rng_state().numpy().tobytes()
