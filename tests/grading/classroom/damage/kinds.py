"""What a broken submission is, and the notebook that the breaking begins with.

``whole_files`` lists those in which nothing can be graded; of those in
``odd_parts`` all other exercises count.
"""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from attn.exercises import cells, sources
from attn.grading.classroom import plan
from attn.grading.classroom.submissions import Submission

FIRST, SECOND, THIRD, FOURTH, FIFTH = EXERCISES = [
    f"gqa-{name}" for name in sources.names("gqa")
]
DAMAGE = {}  # by name


@dataclass(frozen=True)
class Damage:
    """Describe a broken submission.

    Args:
        made: the file's content; or a function of a solved notebook that
            changes it, or returns the content; or several, in a list.
        suffix: of the file's name.
        message: of an unreadable one.
        status: of the exercises that do not pass.
        notes: part of each note, by exercise.
        file_note: part of the note on the file.
        at: makes at a path what has no content.
    """

    made: object = b""
    suffix: str = ".ipynb"
    message: str | None = None
    status: dict = field(default_factory=dict)
    notes: dict = field(default_factory=dict)
    file_note: str = ""
    at: Callable | None = None

    def place(self, folder, name):
        path = folder / f"{name}{self.suffix}"
        if self.at:
            self.at(path)
            return path
        made = self.made
        if not isinstance(made, str | bytes):
            book = solved()
            for edit in made if isinstance(made, list) else [made]:
                made = edit(book) or book
        if isinstance(made, dict):
            made = json.dumps(made)
        path.write_bytes(made.encode() if isinstance(made, str) else made)
        return path


def solved(key="gqa"):
    """Return a solved chapter without its demonstrations and outputs."""
    return copy.deepcopy(_solved(key))


@cache
def _solved(key):
    notebook = sources.notebook(key)
    kept = []
    for cell in notebook["cells"]:
        if name := cells.exercise_id(cell):
            cell["source"] = sources.solution(name).splitlines(keepends=True)
        if name or cells.checked_id(cell):
            cell["outputs"], cell["execution_count"] = [], None
            kept.append(cell)
    return notebook | {"cells": kept}


def planned(book, folder, name="x.ipynb"):
    """Write a notebook, or another file's text, and return its plan."""
    path = folder / name
    path.write_text(book if isinstance(book, str) else json.dumps(book))
    return plan.read(Submission(path, name, path.stem))


def cell_of(book, name):
    return next(x for x in book["cells"] if cells.exercise_id(x) == name)
