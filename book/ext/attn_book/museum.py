"""Show the museum as a gallery: a page a room, and pairs side by side.

The rooms are parts of one notebook, which Sphinx reads again for each. An
exhibit becomes a grid, in which the lines that its repair changes are marked.
Labels come first among the ids of headings: permalinks that stay.
"""

import re
from itertools import pairwise
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from attn.exercises.changes import changed_lines
from attn.publishing.museum import with_index
from attn.publishing.myst_to_markdown.targets import notebook

PAGE = "notebooks/museum"
PARTS = ("says", "fails", "why", "mends", "repaired")
ROOM = re.compile(r"\((museum-\w+)\)=\n## Room ")
EARLY = 400  # Sphinx lists headings, and the theme makes buttons, at 500


def setup(app: Sphinx) -> None:
    app.connect("env-get-outdated", add_rooms)
    app.connect("doctree-read", arrange, EARLY)
    app.connect("html-page-context", offer_the_notebook, EARLY)


def add_rooms(app: Sphinx, env: Any, *_: Any) -> list[str]:
    """Have the notebook read once more for each room."""
    paths = env.project._docname_to_path
    pages = [f"notebooks/{room}" for room in rooms(notebook("museum"))]
    paths.update(dict.fromkeys(pages, paths[PAGE]))
    env.project.docnames.update(pages)
    return pages


def rooms(notebook: Any) -> dict[str, list[Any]]:
    """Return each room's cells by its label; ``museum`` has all others.

    A room is a page of its own: its headings are one level higher.
    """
    found: dict[str, list[Any]] = {"museum": []}
    label = "museum"
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            if start := ROOM.match(text):
                label = start[1]
            elif text.startswith("## "):
                label = "museum"
            if label != "museum":
                text = re.sub(r"^#(?=#)", "", text, flags=re.M)
        found.setdefault(label, []).append({**cell, "source": text})
    return found


def on_page(notebook: Any, page: str) -> Any:
    """Return of a notebook what a page of the book shows, with the index."""
    indexed = with_index(notebook)
    name = page.rpartition("/")[2]
    if not name.startswith("museum"):
        return indexed
    shown = {**indexed, "cells": rooms(indexed)[name]}
    if name != "museum":
        text = "\n".join(x["source"] for x in shown["cells"])
        titles = re.findall(r"^\(bug-.+\n## (.+)", text, re.M)[:4]
        summary = "Faults that are explained and repaired: "
        about = {"summary": f"{summary}{'; '.join(titles)}."}
        shown["metadata"] = {**notebook["metadata"], "attn": about}
    return shown


def offer_the_notebook(app: Sphinx, page: str, *about: Any) -> None:
    """Have a room's button give the one notebook."""
    if page.startswith(PAGE):
        about[1]["sourcename"] = f"{PAGE}.ipynb"


def arrange(app: Sphinx, doctree: nodes.document) -> None:
    """Put what fails and its repair beside each other."""
    for section in doctree.findall(nodes.section):
        label = section["ids"][-1]
        if label.startswith(("museum-", "bug-")):
            section["ids"].reverse()
        if not label.startswith("bug-"):
            continue
        rest = section[1:]
        cells = [i for i, x in enumerate(rest) if "cell" in x["classes"]]
        text = [x.astext().startswith("Repaired.") for x in rest].index(True)
        ends = (0, cells[0], cells[0] + 1, text, cells[-1], None)
        section["classes"].append("exhibit")
        section[1:] = [
            nodes.container("", *rest[start:end], classes=[part])
            for part, (start, end) in zip(PARTS, pairwise(ends), strict=True)
        ]
        *before, after = (
            next(rest[i].findall(nodes.literal_block)) for i in cells
        )
        for code in before:
            lines = changed_lines(code.astext(), after.astext())
            for block, numbers in zip((code, after), lines, strict=True):
                about = block.setdefault("highlight_args", {"hl_lines": []})
                about["hl_lines"] += numbers
