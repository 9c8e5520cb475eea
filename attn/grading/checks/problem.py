"""Describe a difference between a result and the reference's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from torch import Tensor

from attn.grading.checks.effects import SideEffect
from attn.grading.checks.show import first_difference

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

    def name(self, returns: Sequence[str] = ()) -> str:
        """Return the name in a message: ``dk``, ``the gradient of key``.

        Args:
            returns: what the task calls the parts of a result.
        """
        first, *rest = self.entry or ("",)
        if self.kind == "gradient":
            start, rest = f"the gradient of {self.input}", [*self.entry]
        elif isinstance(first, int):
            known = returns[first : first + 1]
            start = known[0] if known else f"result {first + 1}"
        else:
            start = str(first) or "it"
        return start + "".join(f"[{i}]" for i in rest)


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

    def text(self, returns: Sequence[str] = ()) -> str:
        """Return what is wrong, with the first element that is.

        Args:
            returns: what the task calls the parts of a result.
        """
        if self.kind in _OF_THE_CALL:
            return self.message
        first = ""
        if self.wrong is not None:
            first = first_difference(self.wrong, self.got, self.expected)
        return f"{self.part.name(returns)} {self.message}{first}"
