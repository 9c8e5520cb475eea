"""Notice what a call draws from the global random generators."""

from __future__ import annotations

import ctypes
import random
from typing import Any

import numpy.random as numpys
import torch
from numpy.random.mtrand import get_bit_generator, set_bit_generator

from attn.exercises.outcome import Library

_SEED = 271_828_182_845  # none that an answer would set
#: NumPy's, while an answer runs. To read a generator's state takes longer than
#: many a call under test; to read its memory, a key and a position, does not.
_NUMPY = numpys.MT19937(_SEED)
_MEMORY = (ctypes.c_uint32 * 625).from_address(_NUMPY.ctypes.state_address)
_FRESH = bytes(_MEMORY)


class Generators:
    """The global generators: what draws from them; put back at the end."""

    def __enter__(self) -> Generators:
        self._torch, self._python = torch.get_rng_state(), random.getstate()
        self._numpy = get_bit_generator()
        set_bit_generator(_NUMPY)
        ctypes.memmove(_MEMORY, _FRESH, len(_FRESH))
        self.seed()
        self._now = _states()
        return self

    def seed(self) -> None:
        """Seed what CPUs draw from, which is then as it was at the start.

        ``torch.manual_seed`` also notes where it was called, for each kind
        of accelerator: that is half the time of making a module.
        """
        torch.default_generator.manual_seed(_SEED)

    def changed(self) -> frozenset[Library]:
        """Return which were drawn from, or seeded, since the last time."""
        before, self._now = self._now, _states()
        return frozenset(k for k, x in self._now.items() if before[k] != x)

    def __exit__(self, *_: object) -> None:
        torch.set_rng_state(self._torch)
        random.setstate(self._python)
        set_bit_generator(self._numpy)


def _states() -> dict[Library, Any]:
    numpy = get_bit_generator(), bytes(_MEMORY)
    python = random.getstate()
    own = torch.get_rng_state().numpy().tobytes()
    return {"PyTorch": own, "Python": python, "NumPy": numpy}
