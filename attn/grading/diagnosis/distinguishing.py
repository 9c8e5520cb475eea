"""Find on which inputs an answer is right, and on which it is wrong."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from torch import Tensor

from attn.grading.checks.evidence import Evidence
from attn.grading.checks.inputs import named_tensors
from attn.grading.diagnosis.axes import Axes

Relation = Literal["!=", ">", "<", "=="]

_HOLDS: dict[Relation, Callable[[Any, Any], bool]] = {
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
_IS = {"!=": "is not", ">": "is more than", "<": "is less than", "==": "is"}
_HAS = {"!=": "has not", ">": "has more than", "==": "has"}
_PAIRS = (("L", "S"), ("D", "Dv"), ("H", "Hkv"), ("B", "H"), ("B", "S"))


@dataclass(frozen=True)
class Distinction:
    """A property that the inputs of some cases have, and others have not.

    Args:
        subject: the length of an axis, the number of axes of the first input,
            the presence of an input, or the strides of all inputs.
        name: the letter of the axis, or the name of the input.
        relation: of the subject to ``other``.
        other: a number, the letter of another axis, or True.
    """

    subject: Literal["length", "axes", "presence", "strides"]
    name: str = ""
    relation: Relation = "=="
    other: int | str = True

    @property
    def text(self) -> str:
        """The property in words that follow "when"."""
        if self.subject == "strides":
            return "an input is not contiguous"
        if self.subject == "presence":
            return f"{self.name} {_IS[self.relation]} given"
        if self.subject == "length":
            return f"{self.name} {_IS[self.relation]} {self.other}"
        count = "1 axis" if self.other == 1 else f"{self.other} axes"
        return f"the first input {_HAS[self.relation]} {count}"


def in_words(distinctions: Iterable[Distinction]) -> str:
    """Return distinctions in words that follow "when"."""
    return " and ".join(x.text for x in distinctions)


def distinguishing_inputs(evidence: Evidence) -> list[Distinction]:
    """Return what sets all failing cases apart from all right ones.

    At most two properties; nothing, if there are more, or if a case did not
    run.
    """
    if len(evidence.outcomes) < len(evidence.oracle.cases):
        return []
    axes = Axes(evidence.exercise)
    failing = [_Case(evidence, f.index, axes) for f in evidence.failures]
    every = [
        x for x in distinctions(evidence) if all(y.has(x) for y in failing)
    ]
    if len(every) == 2 and all(x.subject == "axes" for x in every):
        every = [x for x in every if x.relation != ">"]  # one says the other
    return every if len(every) <= 2 else []


def distinctions(evidence: Evidence) -> list[Distinction]:
    """Return all that sets the failing cases apart from the right ones."""
    failing, passing = [*evidence.failing], evidence.passing
    if len(failing) < 2 or len(passing) < 2:
        return []
    axes = Axes(evidence.exercise)
    cases = {i: _Case(evidence, i, axes) for i in [*failing, *passing]}
    right = {
        x: {i for i in passing if cases[i].has(x)}
        for x in _candidates([cases[i] for i in failing], [*cases.values()])
        if all(cases[i].has(x) for i in failing)
    }
    if every := [x for x, exceptions in right.items() if not exceptions]:
        return every
    present = (
        x for x in right if (x.subject, x.relation) == ("presence", "==")
    )
    for a, b in combinations(present, 2):
        if not right[a] & right[b]:
            return [a, b]
    return []


class _Case:
    """The properties of one case's inputs."""

    def __init__(self, evidence: Evidence, i: int, axes: Axes) -> None:
        # A kernel has no defaults: its launch gives every argument.
        is_kernel = evidence.exercise.launch
        given = evidence.with_defaults if is_kernel else evidence.inputs
        self.inputs = given(i)
        init = evidence.case(i).init or {}
        self.lengths = axes.sizes({**self.inputs, **init})
        tensors = (x for x in self.inputs.values() if isinstance(x, Tensor))
        self.axes = next((x.dim() for x in tensors), 0)

    def has(self, x: Distinction) -> bool:
        """Return whether the case has a property."""
        value: Any = self.axes
        other: Any = x.other
        if x.subject == "length":
            value, other = self.lengths[x.name], self.lengths.get(other, other)
        elif x.subject == "presence":
            value = self.inputs.get(x.name) is not None
        elif x.subject == "strides":
            tensors = named_tensors([*self.inputs.values()])
            value = any(not y.is_contiguous() for _, y in tensors)
        return _HOLDS[x.relation](value, other)


def _candidates(
    failing: list[_Case], cases: list[_Case]
) -> Iterator[Distinction]:
    """Yield the properties that are tried."""
    letters = set.intersection(*({*case.lengths} for case in cases))
    for a, b in _PAIRS:
        if {a, b} <= letters:
            for relation in _HOLDS:
                yield Distinction("length", a, relation, b)
    for letter in sorted(letters):
        yield Distinction("length", letter, ">", 1)
        yield Distinction("length", letter, "==", 1)
    yield Distinction("strides")
    for name in sorted({name for case in cases for name in case.inputs}):
        yield Distinction("presence", name)
        yield Distinction("presence", name, "!=")
    counts = {case.axes for case in failing}
    for count in range(1, 6):
        if min(counts) < count < max(counts):  # else a plainer one holds
            yield Distinction("axes", relation="!=", other=count)
        yield Distinction("axes", relation="==", other=count)
        yield Distinction("axes", relation=">", other=count)
