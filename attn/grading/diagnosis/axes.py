"""Read what a task calls its axes, and tell the inputs of cases apart by them.

The book has one alphabet for shapes: ``(..., H, L, D)`` in an argument's line
says that its axes are heads, queries and features. A property of the inputs
of some cases has for its name the words that follow "when": ``L is not S``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from torch import Tensor

from attn.exercises.shapes import (
    SHAPE,
    Shape,
    named_axes,
    with_axes,
)
from attn.grading.checks.compare import Part
from attn.grading.checks.evidence import Evidence
from attn.grading.checks.inputs import named_tensors

if TYPE_CHECKING:
    from attn.exercises.spec import Exercise

_WORDS = {"B": "sequence", "N": "row", "rows": "row", "H": "head"}
_WORDS |= {"Hkv": "key head", "L": "query", "S": "key", "S_i": "key"}
_WORDS |= {"D": "feature", "Dv": "feature", "E": "feature"}
_WORDS |= {"columns": "column", "R": "feature", "Hkv * n_rep": "head"}
_WORDS |= {"D / 2": "pair", "R / 2": "pair"}


class Axes:
    """The axes of an exercise's arguments and results, read from its task."""

    def __init__(self, exercise: Exercise) -> None:
        found = exercise.documented
        self._arguments, self._result, self._results = found
        shapes = [*self._arguments.values(), self._result]
        text = " ".join(map(str, shapes))
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
        entry, text = part.entry, self._result
        is_entry = len(entry) == 1 and isinstance(entry[0], int)
        k, end = (entry[0], entry[0] + 1) if is_entry else (0, None)
        shapes = [tuple(x.split(", ")) for x in SHAPE.findall(text)][k:end]
        like = part.input  # the argument that has the same shape
        gradients = re.search(r"gradients of ([\w, ]+)\.", text)
        if is_entry and gradients:
            like = like or re.split(r", | and ", gradients[1])[k]
        elif not shapes:
            words = text.partition("shape")[2]
            named = [
                n for n in self._arguments if re.search(rf"\b{n}\b", words)
            ]
            like = like or [*named, *self._results[k:], ""][0]
        if like:
            return self.of_input(like, shape)
        documented = [x for x in self._arguments.values() if x]
        others = self._arguments.get("OUT") or [*documented, []][0]
        return with_axes(shapes or others[k:end], len(shape))

    def word(self, letters: Shape, axis: int) -> str:
        """Return what an index along an axis is: ``query``, ``row``."""
        letter = letters[axis]
        if not letter and axis == 0 and any(letters[1:2]):
            return self._first
        if letter == "L" and self._tokens:
            return "token"
        if letter in ("L", "S") and letters.count(letter) == 2:
            return "query" if axis == letters.index(letter) else "key"
        if letter in _WORDS:
            return _WORDS[letter]
        if "*" in letter:
            return "feature" if axis == len(letters) - 1 > 0 else "row"
        if not any(letters):
            last = ("row", "column") if len(letters) > 1 else ("element",)
            at = axis - len(letters) + len(last)
            return last[at] if at >= 0 else f"slice of axis {axis}"
        return f"slice of axis {axis}"


_PAIRS = (("L", "S"), ("D", "Dv"), ("H", "Hkv"), ("B", "H"), ("B", "S"))
_MORE_AXES = "the first input has more than "


def distinguishing_inputs(evidence: Evidence) -> list[str]:
    """Return what sets all failing cases apart from all right ones.

    At most two properties; nothing, if there are more, or if a case did not
    run.
    """
    wrong, right = [f.index for f in evidence.failures], evidence.passing
    ran, cases = len(evidence.outcomes), len(evidence.oracle.cases)
    if ran < cases or len(evidence.failing) < 2 or len(right) < 2:
        return []
    found = _properties(evidence, [*wrong, *right])
    common = [x for x in found[wrong[0]] if all(x in found[i] for i in wrong)]
    exceptions = {x: {i for i in right if x in found[i]} for x in common}
    given = [x for x in common if x.endswith(" is given")]
    every = [x for x in common if not exceptions[x]]
    for a, b in combinations(given, 2):
        if not every and not exceptions[a] & exceptions[b]:
            every = [a, b]
    plain = [x for x in every if not x.startswith(_MORE_AXES)] or every
    return plain if len(plain) <= 2 else []


def _properties(evidence: Evidence, cases: list[int]) -> dict[int, list[str]]:
    """Return, for each case, in words what is true of its inputs."""
    axes = Axes(evidence.exercise)
    # A kernel has no defaults: its launch gives every argument.
    is_kernel = evidence.exercise.launch
    given = evidence.with_defaults if is_kernel else evidence.inputs
    inputs = {i: given(i) for i in cases}
    sizes = {
        i: axes.sizes({**x, **(evidence.case(i).init or {})})
        for i, x in inputs.items()
    }
    letters = sorted(set.intersection(*({*x} for x in sizes.values())))
    names = sorted({name for x in inputs.values() for name in x})
    return {
        i: [*_of_sizes(letters, sizes[i]), *_of_inputs(names, inputs[i])]
        for i in cases
    }


def _of_sizes(letters: list[str], sizes: dict[str, int]) -> Iterator[str]:
    """Yield how the lengths of the axes are related, and which are 1."""
    for a, b in _PAIRS:
        if a in letters and b in letters:
            yield f"{a} is {b}" if sizes[a] == sizes[b] else f"{a} is not {b}"
    for x in letters:
        if sizes[x] > 0:
            yield f"{x} is 1" if sizes[x] == 1 else f"{x} is more than 1"


def _of_inputs(names: list[str], inputs: dict[str, Any]) -> Iterator[str]:
    """Yield which inputs are given, and how many axes the first one has."""
    tensors = [x for _, x in named_tensors([*inputs.values()])]
    if any(not x.is_contiguous() for x in tensors):
        yield "an input is not contiguous"
    for name in names:
        is_given = inputs.get(name) is not None
        yield f"{name} is given" if is_given else f"{name} is not given"
    count = count_axes(inputs)
    for n in range(1, count + 1):
        axes = "1 axis" if n == 1 else f"{n} axes"
        yield _MORE_AXES + axes if n < count else f"the first input has {axes}"


def count_axes(inputs: Mapping[str, Any]) -> int:
    """Return how many axes the first tensor has; 0 if there is none."""
    tensors = (x for x in inputs.values() if isinstance(x, Tensor))
    return next((x.dim() for x in tensors), 0)
