"""Submissions that are broken, and what is to become of each.

``whole_files`` lists files in which nothing can be graded. ``@read`` marks a
function that damages one in which other exercises count: it gets a solved
notebook, and changes it or returns the file's content.
"""

import copy
import json
from dataclasses import dataclass, field
from functools import cache

from attn.exercises import cells, sources

FIRST, SECOND, THIRD, FOURTH, FIFTH = EXERCISES = [
    f"gqa-{name}" for name in sources.names("gqa")
]
DAMAGE = {}  # by name


@dataclass(frozen=True)
class Damage:
    write: object  # content, or a function of the path and a notebook
    suffix: str
    message: str | None = None  # of an unreadable one
    status: dict = field(default_factory=dict)  # of what does not pass
    notes: dict = field(default_factory=dict)  # part of each note
    file_note: str = ""

    def place(self, folder, name):
        path = folder / f"{name}{self.suffix}"
        made = self.write
        if callable(made):
            made = made(path, solved())
        if isinstance(made, dict):
            made = json.dumps(made)
        if isinstance(made, str):
            made = made.encode()
        if made is not None:
            path.write_bytes(made)
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


def cell_of(book, name):
    return next(x for x in book["cells"] if cells.exercise_id(x) == name)


def read(status=None, notes=None, file_note="", suffix=".ipynb"):
    expected = (status or {}, notes or {}, file_note)

    def mark(write):
        def made(path, book):
            return write(book) or book

        DAMAGE[write.__name__] = Damage(made, suffix, None, *expected)
        return write

    return mark
