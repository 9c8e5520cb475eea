"""List the chapters on the front page.

A chapter's summary is in its notebook's metadata (``attn``, ``summary``), so
that a new chapter appears in the list by itself.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from attn.data.book import root
from attn.exercises import APPENDICES, CHAPTERS

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PLACE = "<!-- chapters -->"


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_chapters)


def add_chapters(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the chapters' titles and summaries in the page's marked place."""
    if PLACE not in source[0]:
        return
    labels = {f"ch-{key}": stem for key, stem in CHAPTERS.items()}
    labels |= {name: name for name in APPENDICES}
    entries = []
    for label, stem in labels.items():
        path = root() / "notebooks" / f"{stem}.ipynb"
        app.env.note_dependency(str(path))
        about = json.loads(path.read_text("utf-8"))["metadata"].get("attn", {})
        if "summary" not in about:
            raise ValueError(
                f"the metadata of {path.name} must hold a summary of the "
                'chapter: "attn": {"summary": "…"}'
            )
        entries.append(f"{{ref}}`{label}`\n: {about['summary']}")
    source[0] = source[0].replace(PLACE, "\n\n".join(entries))
