"""The start notebook of a workspace: where you are, and the chapters.

Its code cell has the page as its stored output. ``attn lab`` renews that each
time that it starts, and ``start()`` when the cell is run.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from attn.data.book import root
from attn.exercises import APPENDICES, CHAPTERS
from attn.exercises.cells import box
from attn.exercises.place import place
from attn.grading.learner import progress
from attn.grading.learner.progress import Points, Progress
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

These are your copies of the chapters; nothing overwrites what you write."""
_BRING = "Shift+Enter here brings this page up to date"
_CODE = """\
from attn.grading import start

start()"""
_HOW = """\
**In a chapter**, write each exercise in its cell and run it, then run the \
`check` below it. `hint("…")` gives one hint a call, `why()` explains the \
last refusal, `solution("…")` shows the book's answer, and `progress()` \
lists all exercises. Everything works offline.

Notes of your own are safe on this page: add cells below."""
#: The colours of the drawings: of the light theme, then of the dark one.
_COLOURS = re.compile(r"(?ms)^html[^{]*\{(.*?)\}")
_WORDS = re.compile(r"(?s)<text.*?</text>")


def start() -> None:
    """Show where you are in the book, its chapters, and the next step."""
    from IPython.display import display

    display(StartPage(progress.load()))


def start_notebook(entries: dict[str, dict[str, Any]]) -> Any:
    """Return the start notebook, with the page of a learner's entries."""
    page = StartPage(entries)
    shown = {"text/html": page._repr_html_(), "text/plain": repr(page)}
    output = {"output_type": "display_data", "data": shown, "metadata": {}}
    return copies.notebook_of(
        [
            copies.markdown_cell("welcome", _WELCOME),
            copies.shown_cell(CELL, _CODE, _BRING, output),
            copies.markdown_cell("how", _HOW),
        ]
    )


class StartPage:
    """The page that ``start()`` shows, as text and as HTML.

    Args:
        entries: the stored entries, by exercise id.
    """

    def __init__(self, entries: dict[str, dict[str, Any]]) -> None:
        self.progress = Progress(entries)
        self.parts = {x.stem: x for x in self.progress.chapters}
        self.next = self.progress.next
        #: The chapter of what is next, and the exercise.
        self.where = "The book is done", "No exercise is open"
        self.link = ""
        if step := self.next:
            number, _, title = _title(step.stem).partition(" ")
            name, link = step.exercise.id, place(step.exercise.id).address
            self.where = f"Chapter {number}, {title}", name
            self.link = f'<a href="{link}">Continue here</a>'
            if all(row.sign == "·" for row in self.progress.rows):
                self.where = f"Chapter {number}", title
                self.link = f'<a href="{step.stem}.ipynb">Begin here</a>'

    def __repr__(self) -> str:
        lines = [": ".join(self.where)]
        for stem, part in self.parts.items():
            points = f"{part.points:>3} of {part.worth:>2} points"
            lines.append(f"{points}  {_title(stem)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        chapters = "".join(map(self._card, CHAPTERS.values()))
        others = "".join(map(self._card, APPENDICES))
        return (
            f"<style>{_style()}</style>"
            f'<section class="attn-start" aria-label="Where you are">'
            f"{self._continue()}"
            f'<h2>Chapters</h2><ul class="cards">{chapters}</ul>'
            f'<h2>Appendices</h2><ul class="cards">{others}</ul>'
            f'<p class="words"><a href="{GLOSSARY}">Glossary</a></p>'
            "</section>"
        )

    def _continue(self) -> str:
        """Say what is next, with one link to its cell."""
        chapter, what = self.where
        last = self.next.last if self.next else ""
        said = f"Last time: {escape(last)}" if last else ""
        return (
            f'<div class="next"><div><p class="quiet">{chapter}</p>'
            f'<p class="where">{what}</p>'
            f"{_bar(self.progress, said)}</div>{self.link}</div>"
        )

    def _card(self, stem: str) -> str:
        """Return a chapter's card: picture, title, summary, points."""
        about = notebook(stem)["metadata"]["attn"]
        state = foot = ""
        if part := self.parts.get(stem):
            _, minutes = box(notebook(stem))
            foot = f"<div>{_bar(part, f'{minutes} minutes')}</div>"
            state = "done" if all(row.is_done for row in part.rows) else ""
        if self.next and self.next.stem == stem:
            state = "here"
        return (
            f'<li class="{state}"><h3><a href="{stem}.ipynb">{_title(stem)}'
            f"</a></h3>{_drawing(about['picture'])}"
            f'<p class="quiet">{html(about["summary"])}</p>{foot}</li>'
        )


def _bar(part: Points, also: str = "") -> str:
    """Return points as words, and as a bar below them."""
    bar = f'<span style="width: {100 * part.share:.1f}%"></span>'
    return (
        f'<p class="points"><span>{part.total}</span> <span>{also}</span></p>'
        f'<div class="bar" aria-hidden="true">{bar}</div>'
    )


def _title(stem: str) -> str:
    """Return a chapter's title, after its number if it has one."""
    place = targets().places[stem]
    return f"{place.number} {place.words}".strip()


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
