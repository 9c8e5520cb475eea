"""Notice what a call does in addition to its result."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from attn.grading.checks.inputs import named_tensors, unchanged
from attn.grading.checks.parameters import modules, parameters

if TYPE_CHECKING:
    from attn.exercises.case import Case

EffectKind = Literal[
    "changed input",
    "changed parameter",
    "changed result",
    "eval mode",
    "training mode",
    "copy",
    "memory",
    "kept memory",
    "moved memory",
    "random numbers",
    "unseeded generator",
    "same coins",
    "repeated result",
]

_TEXTS: dict[EffectKind, str] = {
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


@dataclass(frozen=True)
class SideEffect:
    """Describe a side effect, or what differs from call to call.

    Args:
        kind: what the call does.
        names: of the inputs, the parameter, the two equal entries, or the
            libraries whose generator is used.
        peak: elements held at once, or between calls.
        limit: elements that are enough.
        largest: the shape of the largest tensor.
    """

    kind: EffectKind
    names: tuple[str, ...] = ()
    peak: int = 0
    limit: int = 0
    largest: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The side effect in words."""
        return _TEXTS[self.kind].format(
            list=", ".join(self.names),
            pair=" and ".join(self.names),
            owners=" and ".join(f"{x}'s" for x in self.names),
            peak=self.peak,
            limit=self.limit,
            largest=self.largest,
        )

    def resembles(self, other: SideEffect) -> bool:
        """Return whether another side effect differs in numbers only."""
        same_names = _without_digits(self.names) == _without_digits(
            other.names
        )
        return self.kind == other.kind and same_names


def _without_digits(names: tuple[str, ...]) -> list[str]:
    return [re.sub(r"\d+", "", name) for name in names]


def changed_module(
    module: Any, case: Case, weights: dict[str, Tensor]
) -> SideEffect | None:
    """Find what a call changed in its own module.

    Args:
        module: what was called; a function has nothing to change.
        case: the case.
        weights: copies of the module's parameters before the call.
    """
    if case.init is None:
        return None
    for name, x in parameters(module).items():
        if name in weights and not unchanged(x.detach(), weights[name]):
            return SideEffect("changed parameter", (name,))
    inner = modules(module).values()
    if any(vars(x).get("training") != case.train for x in inner):
        return SideEffect("eval mode" if case.train else "training mode")
    return None


def copied_tensor(output: Any, case: Case) -> SideEffect | None:
    """Find two entries of a result that should be one tensor and are two."""
    if case.one_tensor is None:
        return None
    entries = dict(named_tensors(output))
    pair = [entries[name] for name in case.one_tensor if name in entries]
    if len({x.untyped_storage().data_ptr() for x in pair}) < 2:
        return None
    return SideEffect("copy", case.one_tensor)
