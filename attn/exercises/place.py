"""Find where the book has an exercise: the chapter, the heading, the cell."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from typing import Any, NamedTuple

from attn.exercises import CHAPTERS, sources
from attn.exercises.cells import checked_id, exercise_id
from attn.exercises.cells import points as cell_points

#: The lines around a cell's outputs, as nbformat writes them.
_OUTPUTS, _END = b'\n   "outputs": [\n', b"\n   ],\n"
_TITLE = re.compile(r"^# (.+)$", re.M)
_HEADING = re.compile(r"^#{1,4} (.+)$", re.M)
_EXERCISE = re.compile(r"^### Exercise: (.+)$", re.M)


class Place(NamedTuple):
    """The place of an exercise in a learner's copy, which keeps cells' ids.

    Args:
        title: the exercise's heading; its id, where there is none.
        address: a link to the cell in which it is written.
    """

    title: str
    address: str


class Chapter(NamedTuple):
    """A chapter's title; places and points of its exercises by their ids."""

    title: str
    places: dict[str, Place]
    points: dict[str, int]


def place(exercise: str) -> Place:
    """Return the place of an exercise, of which the id is known."""
    key = exercise.partition("-")[0]
    plain = Place(exercise, f"{CHAPTERS[key]}.ipynb")
    return chapter(key).places.get(exercise, plain)


def named(exercise: str) -> str:
    """Return an exercise's title and its id."""
    return f"{place(exercise).title} ({exercise})"


def undefined(exercise: str, error: str) -> dict[str, str] | None:
    """Return the name that a NameError lacks, if a cell of the chapter has it.

    With the heading above the first cell that defines or imports it.
    """
    missing = re.match(r"name '(\w+)' is not", error)
    heading = ""
    for cell in _cells(exercise.partition("-")[0]) if missing else ():
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            heading = [heading, *_HEADING.findall(source)][-1]
        elif missing and missing[1] in _defined(source):
            heading = heading.replace("`", "")
            return {"name": missing[1], "heading": heading}
    return None


def points(key: str) -> dict[str, int]:
    """Return what each exercise of a chapter is worth, in its order."""
    return chapter(key).points


def key_of(notebook: Any) -> str:
    """Return the chapter of the first exercise of the book in a notebook."""
    for cell in notebook["cells"]:
        name = checked_id(cell) or exercise_id(cell) or ""
        key = name.partition("-")[0]
        if key in CHAPTERS and name in points(key):
            return key
    return ""


def _defined(source: str) -> set[str]:
    """Return the functions, classes and imports of a cell."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return set()
    aliases = [a for x in body for a in getattr(x, "names", ())]
    own = {getattr(x, "name", "") for x in body}
    return own | {a.asname or a.name for a in aliases}


def _cells(key: str) -> list[dict[str, Any]]:
    """Return a chapter's cells, none where the file is damaged.

    They are without outputs, which are most of a file.
    """
    try:
        first, *others = (
            sources.notebook_path(key).read_bytes().split(_OUTPUTS)
        )
        after = (_END[1:] + x.partition(_END)[2] for x in others)
        return json.loads(_OUTPUTS.join([first, *after]))["cells"]
    except (OSError, ValueError, LookupError):
        return []


@cache
def chapter(key: str) -> Chapter:
    """Read a chapter; what a damaged file lacks goes by its file's name."""
    stem = CHAPTERS[key]
    title, heading, places = stem, "", {}
    cells = _cells(key)
    for cell in cells:
        if name := exercise_id(cell):
            link = f"{stem}.ipynb#cell-id={cell['id']}"
            places[name] = Place(heading or name, link)
        if cell["cell_type"] == "markdown":
            source = "".join(cell["source"]).replace("`", "")
            if title == stem and (found := _TITLE.search(source)):
                title = found[1]
            headings = _EXERCISE.findall(source)
            heading = headings[-1] if headings else heading
            heading = heading[:1].upper() + heading[1:]
    return Chapter(title, places, cell_points({"cells": cells}))
