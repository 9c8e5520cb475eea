"""Put labels, hints and solutions on the pages of the chapters.

A notebook holds an exercise as two code cells: the stub, whose nbgrader
metadata says ``solution: true``, and the check, which says ``grade: true``.
The page gets a label above the first, and drop-downs below the second. Their
text comes from ``attn/exercises`` and ``solutions``, read as source; the
notebooks do not change.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from attn.exercises import CHAPTERS, sources
from attn.exercises.cells import checked_id, exercise_id, points

if TYPE_CHECKING:
    from sphinx.application import Sphinx

Cell = dict[str, Any]


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_to_page)


def add_to_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add labels and drop-downs to the chapter ``docname``."""
    if not docname.startswith("notebooks/"):
        return
    for key, chapter in CHAPTERS.items():
        if docname == f"notebooks/{chapter}":
            for path in (
                sources.solutions_path(key),
                *sorted(sources.folder(key).glob("*.md")),
            ):
                app.env.note_dependency(str(path))
    source[0] = json.dumps(with_exercises(json.loads(source[0])))


def with_exercises(notebook: dict[str, Any]) -> dict[str, Any]:
    """Put a label before and drop-downs after each exercise."""
    worth = points(notebook)
    cells: list[Cell] = []
    for cell in notebook["cells"]:
        if name := exercise_id(cell):
            cells += [
                markdown(label(name, worth.get(name, 0))),
                tagged(cell, "exercise"),
            ]
        elif name := checked_id(cell):
            cells += [tagged(cell, "check"), markdown(dropdowns(name))]
        else:
            cells.append(cell)
    return {**notebook, "cells": cells}


def label(name: str, worth: int) -> str:
    unit = "point" if worth == 1 else "points"
    return (
        f"(exercise-{name})=\n"
        ":::{div} exercise-label\n"
        f"**Exercise** {worth} {unit} `{name}`\n"
        ":::\n"
    )


def dropdowns(name: str) -> str:
    """Return a drop-down for each hint, then one for the solution."""
    parts = [
        dropdown(f"Hint {number}", hint, "hint")
        for number, hint in enumerate(sources.hints(name), start=1)
    ]
    code = f"~~~~~~python\n{sources.solution(name)}\n~~~~~~"
    parts.append(dropdown("Solution", code, "solution"))
    return "\n\n".join(parts)


def dropdown(title: str, text: str, kind: str) -> str:
    """Return a MyST drop-down; ``kind`` is for custom.css and the tests."""
    return (
        f"::::::{{dropdown}} {title}\n"
        f":class-container: exercise-{kind}\n\n"
        f"{text}\n"
        "::::::"
    )


def markdown(text: str) -> Cell:
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    return {
        "cell_type": "markdown",
        "id": name,
        "metadata": {},
        "source": text,
    }


def tagged(cell: Cell, tag: str) -> Cell:
    """Tag a cell; on the page the tag is the class ``tag_…``."""
    metadata = cell["metadata"]
    tags = [*metadata.get("tags", []), tag]
    return {**cell, "metadata": {**metadata, "tags": tags}}
