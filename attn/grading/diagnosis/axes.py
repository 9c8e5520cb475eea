"""Read what a task calls its axes, and tell the inputs of cases apart by them.

The book has one alphabet for shapes: ``(..., H, L, D)`` in an argument's line
says that its axes are heads, queries and features. A property of the inputs
of some cases has for its name the words that follow "when": ``L is not S``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any

from torch import Tensor

from attn.exercises.shapes import (
    SHAPE,
    Shape,
    documented,
    named_axes,
    with_axes,
)
from attn.exercises.spec import Exercise
from attn.grading.checks.compare import Part
from attn.grading.checks.evidence import Evidence
from attn.grading.checks.inputs import named_tensors
from attn.grading.diagnosis.kinds import Kind, kind

_WORDS = {"B": "sequence", "N": "row", "rows": "row", "H": "head"}
_WORDS |= {"Hkv": "key head", "L": "query", "S": "key", "S_i": "key"}
_WORDS |= {"D": "feature", "Dv": "feature", "E": "feature"}
_WORDS |= {"columns": "column", "R": "feature"}


class Axes:
    """The axes of an exercise's arguments and results.

    Args:
        exercise: the exercise; its task is read.
    """

    def __init__(self, exercise: Exercise) -> None:
        found = documented(exercise.id)
        self._arguments, self._result, self._results = found
        text = " ".join(
            str(x) for x in [*self._arguments.values(), self._result]
        )
        names = {*self._arguments} & {"query", "scores"}
        self._first = "head" if exercise.launch else "sequence"
        self._tokens = not names and not re.search(r"\bS\b", text)

    def sizes(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        """Return the length of every axis that the inputs tell, by letter."""
        sizes: dict[str, int] = {}
        for name, x in inputs.items():
            if isinstance(x, Tensor):
                letters = self.of_input(name, x.shape)
                for letter, n in zip(letters, x.shape, strict=True):
                    if re.fullmatch(r"[A-Z]\w{0,2}", letter) and n > 0:
                        sizes.setdefault(letter, n)
                    elif letter in ("D / 2", "R / 2"):
                        sizes.setdefault(letter[0], 2 * n)
            elif type(x) is int:
                for letters in self._arguments.get(name, [])[:1]:
                    if len(letters) == 1:
                        sizes.setdefault(letters[0], x)
        return sizes

    def of_input(self, name: str, shape: Sequence[int]) -> Shape:
        """Return a letter for each axis of an argument, ``""`` if unknown."""
        return named_axes(self._arguments, name, len(shape))

    def of_part(self, part: Part, shape: Sequence[int]) -> Shape:
        """Return a letter for each axis of a result, or of a gradient."""
        if part.kind == "gradient":
            return self.of_input(part.input, shape)
        shapes = [tuple(x.split(", ")) for x in SHAPE.findall(self._result)]
        is_entry = len(part.entry) == 1 and isinstance(part.entry[0], int)
        k = part.entry[0] if is_entry else 0
        if is_entry:
            named = re.search(r"gradients of ([\w, ]+)\.", self._result)
            if named:
                return self.of_input(re.split(r", | and ", named[1])[k], shape)
            shapes = shapes[k : k + 1]
        if not shapes:
            for name in self._arguments:
                if re.search(rf"\bshape.*\b{name}\b", self._result, re.S):
                    return self.of_input(name, shape)
        if not shapes and self._results:
            name = self._results[k] if k < len(self._results) else ""
            return self.of_input(name, shape)
        if not shapes:
            documented = [x for x in self._arguments.values() if x]
            shapes = self._arguments.get("OUT") or [*documented, []][0]
            shapes = shapes[k : k + 1] if is_entry else shapes
        return with_axes(shapes, len(shape))

    def word(self, letters: Shape, axis: int) -> str:
        """Return what an index along an axis is: ``query``, ``row``."""
        letter = letters[axis]
        if not letter and axis == 0 and any(letters[1:2]):
            return self._first
        if letter == "L" and self._tokens:
            return "token"
        if letter == "S" and "L" not in letters and letters.count("S") == 1:
            return "key" if not self._tokens else "token"
        if letters.count("S") == 2 and letter == "S":
            return "query" if axis == letters.index("S") else "key"
        if letters.count("L") == 2 and letter == "L":
            return "query" if axis == letters.index("L") else "key"
        if letter in _WORDS:
            return _WORDS[letter]
        if "/ 2" in letter:
            return "pair"
        if "n_rep" in letter:
            return "head"
        if "*" in letter:
            return "feature" if axis == len(letters) - 1 > 0 else "row"
        if not any(letters):
            last = ("row", "column") if len(letters) > 1 else ("element",)
            at = axis - len(letters) + len(last)
            return last[at] if at >= 0 else f"slice of axis {axis}"
        return f"slice of axis {axis}"


_PAIRS = (("L", "S"), ("D", "Dv"), ("H", "Hkv"), ("B", "H"), ("B", "S"))
_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "is not": operator.ne,
    "is more than": operator.gt,
    "is less than": operator.lt,
    "is": operator.eq,
}
_STRIDED = "an input is not contiguous"
_RIGHT_ONLY_WHEN = {
    "L is not S": "L = S",
    "D is not Dv": "D = Dv",
    "H is not Hkv": "H = Hkv",
    "B is more than 1": "B = 1",
    "H is more than 1": "H = 1",
    _STRIDED: "the inputs are contiguous",
}
_AXES = "the first input has "
_OTHER_AXES = f"{_AXES}not "


def distinguishing_inputs(evidence: Evidence) -> list[str]:
    """Return what sets all failing cases apart from all right ones.

    At most two properties; nothing, if there are more, or if a case did not
    run.
    """
    if len(evidence.outcomes) < len(evidence.oracle.cases):
        return []
    failing = [f.index for f in evidence.failures]
    every = _apart(evidence, failing)
    if len(every) == 2 and all(x.startswith(_AXES) for x in every):
        every = [x for x in every if "more than" not in x]  # says the same
    return every if len(every) <= 2 else []


def special_case(evidence: Evidence) -> tuple[Kind, ...]:
    """Name an answer that is right in one special case, a square one say."""
    every = _apart(evidence, [*evidence.failing]) or [""]
    if len(every) == 1 and every[0] in _RIGHT_ONLY_WHEN:
        good = _RIGHT_ONLY_WHEN[every[0]]
        return (kind("only_when", good=good, bad=every[0]),)
    if every[0].startswith(_OTHER_AXES):
        count = every[0].removeprefix(_OTHER_AXES).split()[0]
        return (kind("axes_counted", count=count),)
    return ()


def _apart(evidence: Evidence, wrong: list[int]) -> list[str]:
    """Return all that sets wrong cases apart from the right ones."""
    axes = Axes(evidence.exercise)
    failing = [_Case(evidence, i, axes) for i in wrong]
    passing = [_Case(evidence, i, axes) for i in evidence.passing]
    if len(evidence.failing) < 2 or len(passing) < 2:
        return []
    right = {
        text: {x for x in passing if holds(x)}
        for text, holds in _properties(failing, passing).items()
        if all(map(holds, failing))
    }
    if every := [text for text, exceptions in right.items() if not exceptions]:
        return every
    given = [text for text in right if text.endswith(" is given")]
    for a, b in combinations(given, 2):
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
        tensors = [x for x in self.inputs.values() if isinstance(x, Tensor)]
        self.axes = tensors[0].dim() if tensors else 0
        every = named_tensors([*self.inputs.values()])
        self.is_strided = any(not x.is_contiguous() for _, x in every)


def _properties(
    failing: list[_Case], passing: list[_Case]
) -> dict[str, Callable[[_Case], bool]]:
    """Return the properties that are tried, in words, and the test of each."""
    found: dict[str, Callable[[_Case], bool]] = {}
    cases = [*failing, *passing]
    letters = set.intersection(*({*x.lengths} for x in cases))
    pairs = [x for x in _PAIRS if {*x} <= letters]
    for (a, b), relation in product(pairs, _RELATIONS):
        found[f"{a} {relation} {b}"] = partial(_compared, relation, a, b)
    for a, relation in product(sorted(letters), ("is more than", "is")):
        found[f"{a} {relation} 1"] = partial(_compared, relation, a, 1)
    found[_STRIDED] = lambda x: x.is_strided
    for name in sorted({name for x in cases for name in x.inputs}):
        for text, is_given in (("is given", True), ("is not given", False)):
            found[f"{name} {text}"] = partial(_is_given, name, is_given)
    counts = {x.axes for x in failing}
    for n in range(1, 6):
        axes = "1 axis" if n == 1 else f"{n} axes"
        if min(counts) < n < max(counts):  # else a plainer one holds
            found[f"{_OTHER_AXES}{axes}"] = partial(_counted, "is not", n)
        found[f"{_AXES}{axes}"] = partial(_counted, "is", n)
        found[f"{_AXES}more than {axes}"] = partial(
            _counted, "is more than", n
        )
    return found


def _compared(relation: str, letter: str, other: Any, x: _Case) -> bool:
    """Compare a length with another one, or with a number."""
    length = x.lengths.get(other, other)
    return _RELATIONS[relation](x.lengths[letter], length)


def _is_given(name: str, is_given: bool, x: _Case) -> bool:
    return (x.inputs.get(name) is not None) == is_given


def _counted(relation: str, n: int, x: _Case) -> bool:
    return _RELATIONS[relation](x.axes, n)
