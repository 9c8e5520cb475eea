"""List the chapters on the front page, and what each needs on the map.

A chapter's summary is in its notebook's metadata (``attn``, ``summary``), its
needs and its minutes are in its first admonition, so that a new chapter
appears in both by itself.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from attn.data.book import root
from attn.exercises import APPENDICES, CHAPTERS
from attn.grading.plain.targets import notebook

if TYPE_CHECKING:
    from sphinx.application import Sphinx

SUMMARIES, NEEDS = "<!-- chapters -->", "<!-- needs -->"
LABELS = {stem: f"ch-{key}" for key, stem in CHAPTERS.items()}


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_chapters)


def add_chapters(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the chapters in the page's marked places."""
    for place, listed in ((SUMMARIES, summaries), (NEEDS, needs)):
        if place in source[0]:
            for stem in (*LABELS, *APPENDICES):
                app.env.note_dependency(str(path_of(stem)))
            source[0] = source[0].replace(place, listed())


def summaries() -> str:
    """Return the chapters' titles and summaries, as definitions."""
    entries = []
    for stem in (*CHAPTERS.values(), *APPENDICES):
        about = notebook(stem)["metadata"].get("attn", {})
        if "summary" not in about:
            raise ValueError(
                f"the metadata of {stem}.ipynb must hold a summary of the "
                'chapter: "attn": {"summary": "…"}'
            )
        number = f"{int(stem[:2])} " if stem in LABELS else ""
        title = f"{number}{{ref}}`{LABELS.get(stem, stem)}`"
        entries.append(f"{title}\n: {about['summary']}")
    return "\n\n".join(entries)


def needs() -> str:
    """Return a table of the chapters, what each needs, and its minutes."""
    lines = ["| chapter | needs chapters | minutes |", "|---|---|---|"]
    for stem, label in LABELS.items():
        cells = ["".join(x["source"]) for x in notebook(stem)["cells"][:3]]
        text = next((x for x in cells if "**You need**" in x), "")
        found = re.search(r"\*\*It takes\*\* about (\d+) minutes", text)
        if not found:
            raise ValueError(
                f"{stem}.ipynb must begin with what it needs and the minutes "
                "that it takes: **You need** …, **It takes** about … minutes"
            )
        need = text.partition("**You need**")[2].partition("\n\n")[0]
        used = [x for x in LABELS if f"({x}.ipynb)" in need]
        words = ", ".join(
            f"{{numref}}`{{number}} <{LABELS[x]}>`" for x in used
        )
        title = f"{int(stem[:2])} {{ref}}`{label}`"
        lines.append(f"| {title} | {words or '–'} | {found[1]} |")
    return "\n".join(lines)


def path_of(stem: str) -> Path:
    return root() / "notebooks" / f"{stem}.ipynb"
