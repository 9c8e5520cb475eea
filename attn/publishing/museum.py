"""Index the museum: what each exhibit states once, in a table of links.

An exhibit is a heading with a label of its own, a cell that fails, and a
paragraph that begins with **Source.**; its room is the heading above it.
"""

from __future__ import annotations

import re
from typing import Any

MARK = "<!-- exhibits -->"
FACTS = {
    "label": "a label above its heading, such as (bug-true-is-one)=",
    "effect": "a cell tagged raises-exception, and its output: attn refresh",
    "room": "a heading above it, such as ## Room 3: masks",
    "source": "a paragraph that begins with **Source.**",
    "library": "a **Source.** that links to a repository on GitHub",
}
SHOWN = ("effect", "room", "library", "source")

#: A room; an exhibit, below its label and old permalinks; its source.
_STATED = re.compile(
    r"(?m)^## (.+)|(?:^\((.+)\)=\n(?:\(.+\n)*)?^### (.+)"
    r"|^\*\*Source\.\*\* (.+)"
)
_REPOSITORY = re.compile(r"\(https://github\.com/[\w.-]+/([\w.-]+)")
#: Where an address is not the library's name.
_NAMES = {
    "Speech": "NeMo",
    "pytorch-image-models": "timm",
    "tutorials": "pytorch",
}


def with_index(notebook: Any) -> Any:
    """Return a notebook with the table of its exhibits in the marked place."""
    cells = [{**x, "source": "".join(x["source"])} for x in notebook["cells"]]
    for cell in cells:
        if cell["cell_type"] == "markdown" and MARK in cell["source"]:
            cell["source"] = cell["source"].replace(MARK, _table(notebook))
    return {**notebook, "cells": cells}


def exhibits(notebook: Any) -> list[dict[str, str]]:
    """Return the facts of each exhibit.

    Raises:
        ValueError: one lacks a fact.
    """
    found: list[dict[str, str]] = []
    room = ""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            if "raises-exception" in cell["metadata"].get("tags", []):
                names = [x["ename"] for x in cell["outputs"] if "ename" in x]
                # Silent: only the exhibit's own comparison notices it.
                effect = "silent" if names == ["AssertionError"] else "loud"
                found[-1]["effect"] = effect if names else ""
            continue
        text = "".join(cell["source"])
        for heading, label, title, source in _STATED.findall(text):
            if heading:
                room = heading.partition("Room ")[2]
            elif title:
                found.append({"title": title, "room": room, "label": label})
            else:
                found[-1] |= _source(source)
    for exhibit in found:
        for fact, needed in FACTS.items():
            if not exhibit.get(fact):
                raise ValueError(
                    f"the exhibit {exhibit['title']!r} must have {needed}"
                )
    return found


def _source(text: str) -> dict[str, str]:
    """Return whether the fault was published, and in which libraries."""
    names = [_NAMES.get(x, x) for x in _REPOSITORY.findall(text)]
    library = ", ".join(dict.fromkeys(names))
    if text.startswith("Invented here"):
        return {"source": "invented here", "library": "no library"}
    source = "found here" if text.startswith("Found here") else "public"
    return {"source": source, "library": library}


def _table(notebook: Any) -> str:
    lines = [f"| exhibit | {' | '.join(SHOWN)} |", "|---|---|---|---|---|"]
    for exhibit in exhibits(notebook):
        facts = " | ".join(exhibit[fact] for fact in SHOWN)
        words = exhibit["title"].replace("`", "")  # a role holds no code
        lines.append(f"| {{ref}}`{words} <{exhibit['label']}>` | {facts} |")
    return "\n".join(lines)
