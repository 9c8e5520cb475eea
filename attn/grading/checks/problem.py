"""Describe a difference between a result and the reference's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from torch import Tensor

from attn.grading.checks.show import first_difference
from attn.grading.checks.side_effects import SideEffect

ProblemKind = Literal[
    "type",
    "shape",
    "dtype",
    "device",
    "nan",
    "value",
    "error",
    "random",
    "side effect",
]
#: Kinds of problems of a call as a whole, not of a part of its result.
_OF_THE_CALL = frozenset({"error", "random", "side effect"})


@dataclass(frozen=True)
class Part:
    """Name the part of an outcome that is compared.

    Args:
        kind: ``result``, or ``gradient`` with respect to an input.
        input: the name of that input, or of a parameter.
        entry: the indices and keys that lead to an entry of the result.
    """

    kind: Literal["result", "gradient"] = "result"
    input: str = ""
    entry: tuple[Any, ...] = ()

    def at(self, index: Any) -> Part:
        """Return an entry of this part."""
        return replace(self, entry=(*self.entry, index))

    @property
    def name(self) -> str:
        """The name in a message: ``it[1]``, ``the gradient of key``."""
        is_result = self.kind == "result"
        start = "it" if is_result else f"the gradient of {self.input}"
        return start + "".join(f"[{i}]" for i in self.entry)


RESULT = Part()


@dataclass(frozen=True)
class Problem:
    """A difference: typed for a diagnosis, in words for a message.

    Args:
        kind: ``error``, ``random`` and ``side effect`` are found by a run, the
            others by a comparison.
        message: what is wrong, without the name of the part.
        part: the part that is wrong.
        required: the class that a ``type`` problem misses.
        effect: what the call does in addition to its result, where that is
            the problem.
        got, expected: two tensors of one shape, or two numbers.
        wrong: bool, True where two tensors differ.
    """

    kind: ProblemKind
    message: str
    part: Part = RESULT
    required: Literal["", "int", "tensor", "plain tensor"] = ""
    effect: SideEffect | None = None
    got: Any = field(default=None, repr=False)
    expected: Any = field(default=None, repr=False)
    wrong: Tensor | None = field(default=None, repr=False)

    @cached_property
    def text(self) -> str:
        """Return what is wrong, with the first element that is."""
        if self.kind in _OF_THE_CALL:
            return self.message
        first = ""
        if self.wrong is not None:
            first = first_difference(self.wrong, self.got, self.expected)
        return f"{self.part.name} {self.message}{first}"
