"""Represent the outcome of a call: its result, its error, and its effects."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

Shapes = dict[str, tuple[int, ...]]

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


@dataclass
class Outcome:
    """The result or the error of a call, and its side effects."""

    output: Any = None
    grads: dict[str, Tensor] = field(default_factory=dict)
    error: BaseException | None = None
    where: str = ""  # the learner's line that raised
    shapes_seen: Shapes = field(default_factory=dict)  # of its tensors
    side_effect: SideEffect | None = None
    random_used: frozenset[Library] = frozenset()  # by their generators
    repeats: bool = False  # it is the result of an earlier call
    printed: str = ""


Refusal = Literal["forbidden", "read_as_number"]


class Forbidden(Exception):
    """The answer called a function that the task is to write by hand.

    Args:
        message: what it called.
        kind: of mistake, a key of ``diagnosis/kinds.md``.
    """

    def __init__(self, message: str, kind: Refusal = "forbidden") -> None:
        super().__init__(message)
        self.kind = kind


_ATTENTION = (
    "scaled_dot_product|flash_attention|efficient_attention|cudnn_attention|"
    "flex_attention|multi_head_attention"
)
_NORMS = "layer_norm|rms_norm|group_norm|batch_norm|instance_norm"

GROUPS = {
    "softmax": f"softmax|softmin|{_ATTENTION}",
    # Only PyTorch's attention calls _safe_softmax.
    "scaled_dot_product_attention": f"{_ATTENTION}|safe_softmax",
    "MultiheadAttention": "multi_head_attention",
    # What int(), float(), an index or an if reads of a tensor; and what has
    # a shape that depends on the elements.
    "item": "local_scalar_dense|tolist|nonzero|masked_select|unique|bincount|"
    "to_sparse|^(equal|numpy|__array__)$",
    "layer_norm": _NORMS,
    "rms_norm": _NORMS,
}
"""Patterns in the names of all functions and operators that do the same."""


def group_of(function: str, names: tuple[str, ...]) -> str | None:
    """Return which of the forbidden names a function falls under."""
    for name in names:
        same = re.search(GROUPS.get(name, "(?!)"), function)  # or nothing
        if same or function.strip("_") == name:
            return name
    return None


def refused_call(function: str, group: str) -> str:
    """Say that a function of a forbidden group is called."""
    called = function.strip("_").removeprefix("special_")
    return (
        f"it calls PyTorch's {called}; the task is to write "
        f"{'it' if called == group else group} by hand"
    )
