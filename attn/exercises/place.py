"""Find where the book has an exercise: the chapter, the heading, the cell."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from attn.exercises import CHAPTERS, sources
from attn.exercises.cells import exercise_id

_TITLE = re.compile(r"^# (.+)$", re.M)
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
    """A chapter's title, and the places of its exercises by their ids."""

    title: str
    places: dict[str, Place]


def place(exercise: str) -> Place:
    """Return the place of an exercise, of which the id is known."""
    key = exercise.partition("-")[0]
    plain = Place(exercise, f"{CHAPTERS[key]}.ipynb")
    return chapter(key).places.get(exercise, plain)


@cache
def chapter(key: str) -> Chapter:
    """Read a chapter; what a damaged file lacks goes by its file's name."""
    stem = CHAPTERS[key]
    title, heading, places = stem, "", {}
    try:
        cells = sources.notebook(key)["cells"]
    except (OSError, ValueError, LookupError):
        cells = []
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
    return Chapter(title, places)
