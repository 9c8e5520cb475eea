"""Read the shapes of a task's tensors, as its docstring writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

Shape = tuple[str, ...]

Documented = tuple[dict[str, list[Shape]], str, list[str]]
"""Shapes of arguments, the text about the result, which are results."""

_TOKEN = r"(?:\.\.\.|\d+|[A-Z]\w{0,2}|rows|columns|n_rep|S_i)"
_SIZE = rf"{_TOKEN}(?: [*/+] {_TOKEN})*"
SHAPE = re.compile(rf"\(({_SIZE}(?:, {_SIZE})*),?\)")

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
def documented(exercise_id: str) -> Documented:
    """Return the shapes of the arguments, the text about the result, and
    which arguments of a kernel are its results.
    """
    from attn.exercises import sources

    _, name = sources.split_id(exercise_id)
    texts_by_name = sources.docstrings(exercise_id)
    methods = ("__init__", "forward")
    texts = [texts_by_name[x] for x in methods if x in texts_by_name]
    texts = texts or [texts_by_name[name]]
    arguments: dict[str, list[Shape]] = {}
    results: list[str] = []
    for text in texts:
        section = text.partition("\nArgs:\n")[2].partition("\n\nR")[0]
        for entry in re.split(r"\n(?=    \w)", "\n" + section)[1:]:
            names, _, rest = entry.strip().partition(":")
            shapes = [tuple(x.split(", ")) for x in SHAPE.findall(rest)]
            letter = re.search(r"\b([A-Z]\w{0,2})[.,;`]", rest)
            if not shapes and letter:
                shapes = [(letter[1],)]
            for name in names.replace("`", "").split(", "):
                arguments[name] = shapes
                if rest.startswith(" the result"):
                    results.append(name)
    return arguments, texts[-1].partition("\nReturns:\n")[2], results


def named_axes(
    arguments: Mapping[str, list[Shape]], name: str, count: int
) -> Shape:
    """Return a letter for each axis of an argument, ``""`` if unknown."""
    shapes = arguments.get(name.partition("[")[0]) or []
    if not shapes and name in _USUAL:
        shapes = [tuple(_USUAL[name][1:-1].split(", "))]
    return with_axes(shapes, count)


def with_axes(shapes: list[Shape], count: int) -> Shape:
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
