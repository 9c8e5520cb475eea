"""The start notebook of a workspace: where you are, and the chapters.

Its code cell has the page as its stored output. ``attn lab`` renews that each
time that it starts, and ``start()`` when the cell is run.
"""

from __future__ import annotations

import re
from pathlib import Path
from string import Template
from typing import Any

from attn.data.book import root
from attn.exercises import APPENDICES, CHAPTERS
from attn.exercises.cells import box
from attn.grading.learner import cards, progress
from attn.grading.learner.progress import Entries, Progress
from attn.publishing.myst_to_markdown import copies
from attn.publishing.myst_to_markdown.targets import (
    GLOSSARY,
    notebook,
    targets,
)
from attn.publishing.myst_to_markdown.translation import html

NAME = "00_start.ipynb"
#: The id of the cell that shows the page.
CELL = "start"
_WELCOME = """\
# Attention, built by hand

These are your copies of the chapters; nothing overwrites what you write. \
Everything works offline. Notes of your own are safe on this page: add cells \
below."""
#: Not folded: a click would open it, and nothing would close it again.
_CODE = """\
from attn.grading import start; start()  # Ctrl+Enter: bring it up to date"""
#: The colours of the drawings: of the light theme, then of the dark one.
_COLOURS = re.compile(r"(?ms)^html[^{]*\{(.*?)\}")
_WORDS = re.compile(r"(?s)<text.*?</text>")


def start() -> None:
    """Show where you are in the book, its chapters, and the next step."""
    from IPython.display import display

    display(StartPage(progress.load()))


def start_notebook(entries: Entries) -> Any:
    """Return the start notebook, with the page of a learner's entries."""
    return copies.notebook_of(
        [
            copies.markdown_cell("welcome", _WELCOME),
            copies.shown_cell(CELL, _CODE, StartPage(entries)),
        ]
    )


class StartPage:
    """The page that ``start()`` shows, as text and as HTML."""

    def __init__(self, entries: Entries) -> None:
        self.progress = Progress(entries)
        self.parts = {x.stem: x for x in self.progress.chapters}
        #: The chapter of what is next, and the exercise.
        self.where = "The book is done", "No exercise is open"
        #: The words and the address of the link to it.
        self.link = ("", "")
        if step := self.progress.next:
            title, number, _ = targets().places[step.stem]
            self.where = f"Chapter {number}, {title}", step.at.title
            self.link = "Continue here", step.at.address
            if all(row.sign == "·" for row in self.progress.rows):
                self.where = f"Chapter {number}", title
                self.link = "Begin here", f"{step.stem}.ipynb"

    def __repr__(self) -> str:
        lines = [": ".join(self.where)]
        for stem, part in self.parts.items():
            points = f"{part.points:>3} of {part.worth:>2} points"
            lines.append(f"{points}  {targets().places[stem].title}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return (
            cards.templates()
            .get_template("start_page.html")
            .render(
                page=self,
                style=_style(),
                chapters=map(self._card, CHAPTERS.values()),
                appendices=map(self._card, APPENDICES),
                glossary=GLOSSARY,
            )
        )

    def _card(self, stem: str) -> dict[str, Any]:
        """Return what a chapter's card shows."""
        about, part = notebook(stem)["metadata"]["attn"], self.parts.get(stem)
        state = "done" if part and all(x.is_done for x in part.rows) else ""
        if part and part is self.progress.here:
            state = "here"
        return {
            "address": f"{stem}.ipynb",
            "title": targets().places[stem].title,
            "drawing": _drawing(about["picture"]),
            "summary": html(about["summary"]),
            "part": part,
            "minutes": box(notebook(stem))[1] if part else "",
            "state": state,
        }


def _drawing(picture: str) -> str:
    """Return a drawing of the book, whose words are too small on a card."""
    path = root() / "book" / "figures" / f"{picture}.svg"
    bare = _WORDS.sub("", path.read_text("utf-8"))
    return bare.replace("<svg ", '<svg aria-hidden="true" ', 1)


def _style() -> str:
    """Return the style of the page, with the drawings' colours."""
    colours = (root() / "book" / "_static" / "figures.css").read_text("utf-8")
    light, dark = _COLOURS.findall(colours)
    css = Path(__file__).with_suffix(".css").read_text("utf-8")
    return Template(css).substitute(light=light, dark=dark)
