"""Read from a task what the axes of its tensors are called, and how long.

The book has one alphabet for shapes: ``(..., H, L, D)`` in an argument's line
says that its axes are heads, queries and features.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
from attn.grading.checks.problem import Part

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
