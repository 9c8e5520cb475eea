"""Notice what a call does in addition to its result."""

from __future__ import annotations

import ctypes
import random
import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy.random as numpys
import torch
from numpy.random.mtrand import get_bit_generator, set_bit_generator
from torch import Tensor

from attn.exercises.case import Case
from attn.grading.checks.inputs import named_tensors, unchanged
from attn.grading.checks.objects import held_memory, parameters

Library = Literal["PyTorch", "Python", "NumPy"]
"""A library by the global generator that is its own."""

EFFECTS = {
    "changed input": "it changes {list} in place",
    "changed parameter": "it changes its parameter {list}",
    "changed result": "it changes what it returned earlier",
    "eval mode": "it switches itself, or a part of it, to eval mode",
    "training mode": "it switches itself, or a part of it, to training mode",
    "copy": "{pair} are two tensors with equal numbers, not one",
    "memory": "at its peak it holds {peak:,} elements beyond its inputs, "
    "where {limit:,} are enough; the largest tensor is {largest}. Is "
    "something copied, or kept for longer than it is needed?",
    "kept memory": "between calls it holds {peak:,} elements, where "
    "{limit:,} are enough: what does it keep that is larger than the task "
    "says, or there twice?",
    "moved memory": "it holds memory that was not there before the call, a "
    "tensor of {peak:,} elements: is all of it copied in order to write?",
    "random numbers": "it draws random numbers from {owners} global "
    "generator, or seeds it, and this task needs none",
    "unseeded generator": "it draws from {owners} generator, which "
    "torch.manual_seed does not seed",
    "same coins": "it tosses the same coins at each call: is there a seed "
    "inside?",
    "repeated result": "it returns an earlier call's result: what is kept "
    "between calls?",
}
"""Side effects in words, by their kinds."""


@dataclass(frozen=True)
class SideEffect:
    """Describe a side effect, or what differs from call to call.

    Args:
        kind: what the call does, a key of ``EFFECTS``.
        names: of the inputs, the parameter, the two equal entries, or the
            libraries whose generator is used.
        peak: elements held at once, or between calls.
        limit: elements that are enough.
        largest: the shape of the largest tensor.
    """

    kind: str
    names: tuple[str, ...] = ()
    peak: int = 0
    limit: int = 0
    largest: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in EFFECTS:
            known = ", ".join(EFFECTS)
            raise ValueError(f"kind must be one of {known}; got {self.kind!r}")

    @property
    def text(self) -> str:
        """The side effect in words."""
        return EFFECTS[self.kind].format(
            list=", ".join(self.names),
            pair=" and ".join(self.names),
            owners=" and ".join(f"{x}'s" for x in self.names),
            **vars(self),
        )

    @property
    def likeness(self) -> tuple[str, str]:
        """The part that it shares with one that differs in numbers only."""
        return self.kind, re.sub(r"\d+", "", str(self.names))


def effect_of(
    module: Any,
    output: Any,
    case: Case,
    weights: dict[str, Tensor],
    places: dict[int, int],
) -> SideEffect | None:
    """Find what a call changed in its own module, copied, or keeps.

    Args:
        module: what was called; a function has nothing to change.
        output: its result.
        case: the case.
        weights: copies of the module's parameters before the call.
        places: the memory that it held before the call.
    """
    if case.init is not None:
        for name, x in parameters(module).items():
            if name in weights and not unchanged(x.detach(), weights[name]):
                return SideEffect("changed parameter", (name,))
        if any(x.training != case.train for x in module.modules()):
            return SideEffect("eval mode" if case.train else "training mode")
    if case.one_tensor is not None:  # and not two of equal elements
        entries = dict(named_tensors(output))
        pair = [entries[name] for name in case.one_tensor if name in entries]
        if len({x.untyped_storage().data_ptr() for x in pair}) > 1:
            return SideEffect("copy", case.one_tensor)
    if case.max_kept is not None:
        memory = held_memory(module)
        if (kept := sum(memory.values())) > case.max_kept:
            return SideEffect("kept memory", peak=kept, limit=case.max_kept)
        if moved := [n for place, n in memory.items() if place not in places]:
            return SideEffect("moved memory", peak=max(moved))
    return None


# --- the global generators ---------------------------------------------------

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
