"""Put cards, hints and solutions on the pages of the chapters.

A notebook holds an exercise as two code cells: the stub, whose nbgrader
metadata says ``solution: true``, and the check, which says ``grade: true``.
The page gets a card above the first, which sets the task as text (the stub
there has no docstring), and drop-downs below the second. Their text comes
from ``attn/exercises`` and ``solutions``, read as source; the notebooks do
not change.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from sphinx.ext.napoleon import GoogleDocstring

from attn.exercises import CHAPTERS, sources
from attn.exercises.cells import checked_id, exercise_id, points

if TYPE_CHECKING:
    from sphinx.application import Sphinx

Cell = dict[str, Any]
DEFINITION = ast.FunctionDef | ast.ClassDef


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
                markdown(card(name, worth.get(name, 0))),
                {**tagged(cell, "exercise"), "source": bare_stub(name)},
            ]
        elif name := checked_id(cell):
            cells += [tagged(cell, "check"), markdown(dropdowns(name))]
        else:
            cells.append(cell)
    return {**notebook, "cells": cells}


def card(name: str, worth: int) -> str:
    """Return the points, the id and the task, set as text."""
    unit = "point" if worth == 1 else "points"
    return (
        f"(exercise-{name})=\n"
        ":::::{div} exercise-card\n"
        f"**{worth} {unit}** `{name}`\n\n"
        f"{task(name)}\n"
        ":::::\n"
    )


def task(name: str) -> str:
    """Return the docstrings of an exercise as Markdown.

    What they use of reStructuredText, code and lists of fields, is Markdown
    as well. As ``eval-rst`` a page takes seconds: MyST gives the parser an
    empty line for each line of the notebook before it, ten thousand a cell.
    """
    right = definition(sources.solution(name))
    parts = [ast.get_docstring(right) or ""]
    if isinstance(right, ast.ClassDef):
        for method in right.body:
            if isinstance(method, ast.FunctionDef):
                text = ast.get_docstring(method) or ""
                parts.append(f"``{method.name}``: {text}")
    return "\n\n".join(map(set_as_text, parts))


def set_as_text(docstring: str) -> str:
    """Turn a docstring's arguments and results into a list of fields."""
    text = str(GoogleDocstring(docstring, what="function"))
    text = re.sub(r"^:(?:param|raises) (.+?):", r":\1:", text, flags=re.M)
    # A text like "C." begins a list for napoleon, which moves it down.
    return re.sub(r"^(:.+:)\n +", r"\1 ", text, flags=re.M)


def bare_stub(name: str) -> str:
    """Return the stub without the docstrings, which the card shows."""
    stub = sources.stub(name)
    lines = stub.splitlines()
    right = definition(stub)
    owners = [right, *getattr(right, "body", [])]
    for owner in reversed(owners):
        if isinstance(owner, DEFINITION) and ast.get_docstring(owner):
            doc = owner.body[0]
            del lines[doc.lineno - 1 : doc.end_lineno]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).replace(":\n\n", ":\n")


def definition(source: str) -> Any:
    """Return the last function or class of a source."""
    return [x for x in ast.parse(source).body if isinstance(x, DEFINITION)][-1]


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
