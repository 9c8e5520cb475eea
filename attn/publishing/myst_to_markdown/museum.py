"""Index the museum: what each exhibit states once, in a table of links.

An exhibit is a heading with a label of its own, a cell that fails, and a
paragraph that begins with **Source.**; its room is the heading above it. The
museum is one notebook, whose cells use each other's names; the book shows a
page a room.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from attn.publishing.myst_to_markdown import myst

MARK = "<!-- exhibits -->"
FACTS = {
    "label": "a label above its heading, such as (bug-true-is-one)=",
    "effect": "a cell tagged raises-exception, and its output: attn refresh",
    "room": "a heading above it, such as ## Room 3: masks",
    "source": "a paragraph that begins with **Source.**",
    "library": "a **Source.** that links to a repository on GitHub",
}
SHOWN = ("effect", "room", "library", "source")

_ROOM = re.compile(r"\((museum-\w+)\)=\n## Room ")
_SOURCE = "**Source.** "
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


def rooms(notebook: Any) -> dict[str, list[Any]]:
    """Return each room's cells by its label; ``museum`` has all others.

    A room is a page of its own: its headings are one level higher.
    """
    found: dict[str, list[Any]] = {"museum": []}
    label = "museum"
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            if start := _ROOM.match(text):
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


def exhibits(notebook: Any) -> list[dict[str, str]]:
    """Return the facts of each exhibit.

    Raises:
        ValueError: one lacks a fact.
    """
    every = list(_exhibits(notebook))
    for exhibit in every:
        for fact, needed in FACTS.items():
            if not exhibit.get(fact):
                raise ValueError(
                    f"the exhibit {exhibit['title']!r} must have {needed}"
                )
    return every


def _exhibits(notebook: Any) -> Iterator[dict[str, str]]:
    exhibit: dict[str, str] = {}
    room = label = ""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            if "raises-exception" in cell["metadata"].get("tags", []):
                exhibit["effect"] = _effect(cell)
            continue
        for token in myst.blocks("".join(cell["source"])):
            text = token.content
            if token.type == "myst_target":
                label = label or text  # a second one is an old permalink
            elif token.type == "inline":
                if token.tag in ("h2", "h3") and exhibit:
                    yield exhibit
                    exhibit = {}
                if token.tag == "h2":
                    room = text.partition("Room ")[2]
                elif token.tag == "h3":
                    exhibit = {"title": text, "room": room, "label": label}
                elif text.startswith(_SOURCE):
                    exhibit |= _source(text.removeprefix(_SOURCE))
                label = ""
    if exhibit:
        yield exhibit


def _effect(cell: Any) -> str:
    """Return whether only the exhibit's own comparison notices the fault."""
    names = [x["ename"] for x in cell["outputs"] if "ename" in x]
    if not names:
        return ""
    return "silent" if names == ["AssertionError"] else "loud"


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
