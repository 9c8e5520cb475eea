"""Read from a task what the axes of its tensors are called, and how long.

The book has one alphabet for shapes: ``(..., H, L, D)`` in an argument's line
says that its axes are heads, queries and features.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from torch import Tensor

from attn.exercises import sources
from attn.exercises.spec import Exercise
from attn.grading.checks.problem import Part

Shape = tuple[str, ...]

_TOKEN = r"(?:\.\.\.|\d+|[A-Z]\w{0,2}|rows|columns|n_rep|S_i)"
_SIZE = rf"{_TOKEN}(?: [*/+] {_TOKEN})*"
_SHAPE = re.compile(rf"\(({_SIZE}(?:, {_SIZE})*),?\)")
_WORDS = {"B": "sequence", "N": "row", "rows": "row", "H": "head"}
_WORDS |= {"Hkv": "key head", "L": "query", "S": "key", "S_i": "key"}
_WORDS |= {"D": "feature", "Dv": "feature", "E": "feature"}
_WORDS |= {"columns": "column", "R": "feature"}

# Where a task says "as in tiled_forward", or gives pointers.
_USUAL = {
    "query": "(..., L, D)",
    "key": "(..., S, D)",
    "value": "(..., S, Dv)",
    "out": "(..., L, Dv)",
    "d_out": "(..., L, Dv)",
    "lse": "(..., L)",
}


@cache
def _documented(
    exercise_id: str,
) -> tuple[dict[str, list[Shape]], str, list[str]]:
    """Return the shapes of the arguments, the text about the result, and
    which arguments of a kernel are its results.
    """
    _, name = sources.split_id(exercise_id)
    documented = sources.docstrings(exercise_id)
    methods = ("__init__", "forward")
    texts = [documented[x] for x in methods if x in documented]
    texts = texts or [documented[name]]
    arguments: dict[str, list[Shape]] = {}
    results: list[str] = []
    for text in texts:
        section = text.partition("\nArgs:\n")[2].partition("\n\nR")[0]
        for entry in re.split(r"\n(?=    \w)", "\n" + section)[1:]:
            names, _, rest = entry.strip().partition(":")
            shapes = [tuple(x.split(", ")) for x in _SHAPE.findall(rest)]
            letter = re.search(r"\b([A-Z]\w{0,2})[.,;`]", rest)
            if not shapes and letter:
                shapes = [(letter[1],)]
            for name in names.replace("`", "").split(", "):
                arguments[name] = shapes
                if rest.startswith(" the result"):
                    results.append(name)
    return arguments, texts[-1].partition("\nReturns:\n")[2], results


class Axes:
    """The axes of an exercise's arguments and results.

    Args:
        exercise: the exercise; its task is read.
    """

    def __init__(self, exercise: Exercise) -> None:
        documented = _documented(exercise.id)
        self._arguments, self._result, self._results = documented
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
        shapes = self._arguments.get(name.partition("[")[0]) or []
        if not shapes and name in _USUAL:
            shapes = [tuple(_USUAL[name][1:-1].split(", "))]
        return _with_axes(shapes, len(shape))

    def of_part(self, part: Part, shape: Sequence[int]) -> Shape:
        """Return a letter for each axis of a result, or of a gradient."""
        if part.kind == "gradient":
            return self.of_input(part.input, shape)
        shapes = [tuple(x.split(", ")) for x in _SHAPE.findall(self._result)]
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
        return _with_axes(shapes, len(shape))

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


def _with_axes(shapes: list[Shape], count: int) -> Shape:
    """Return the shape that has so many axes, ``...`` filled up."""
    for shape in shapes:
        same = shape[-1] == shapes[0][-1]
        if "..." not in shape and len(shape) == count and same:
            return shape
    for shape in shapes:
        if shape[0] == "..." and len(shape) - 1 <= count:
            lead = count - len(shape) + 1
            return ("",) * lead + shape[1:]
        if shape[0] == "..." and count:
            return shape[-count:]
    return ("",) * count
