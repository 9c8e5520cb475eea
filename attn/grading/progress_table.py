"""Show a learner's progress in the whole book, and the next step."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

from attn.exercises import CHAPTERS, sources
from attn.exercises.cells import exercise_id
from attn.exercises.spec import Exercise, chapter
from attn.grading import progress_store

_STYLE = "text-align: left"


def progress() -> None:
    """Show your progress in the whole book, and the next step.

    In Jupyter it is a table, in which the exercises that are still open are
    links to their cells.
    """
    from IPython.display import display

    display(Progress(progress_store.load()))


@dataclass(frozen=True)
class Row:
    """An exercise, and how far the learner has come with it."""

    exercise: Exercise
    stem: str
    entry: dict[str, Any]

    @property
    def is_done(self) -> bool:
        return bool(self.entry.get("passed"))

    @property
    def points(self) -> int:
        return self.exercise.points if self.is_done else 0

    @property
    def sign(self) -> str:
        if self.is_done:
            return "✓"
        return "✗" if self.entry.get("attempts") else "·"

    @property
    def counts(self) -> list[str]:
        """Return how often it was checked, and how many hints were taken."""
        fields = (("attempts", "checks"), ("hints", "hints"))
        return [
            f"{label}: {self.entry[field]}"
            for field, label in fields
            if self.entry.get(field)
        ]

    @property
    def last(self) -> str:
        """Return what was wrong at the last check of an open exercise."""
        return "" if self.is_done else str(self.entry.get("last") or "")


class Progress:
    """The table that ``progress()`` shows, as text and as HTML.

    Args:
        entries: the stored entries, by exercise id.
    """

    def __init__(self, entries: dict[str, dict[str, Any]]) -> None:
        self.rows = [
            Row(exercise, stem, entries.get(exercise.id, {}))
            for key, stem in CHAPTERS.items()
            for exercise in chapter(key)
        ]

    @property
    def total(self) -> str:
        done = sum(row.points for row in self.rows)
        return f"{done} of {sum(x.exercise.points for x in self.rows)} points"

    @property
    def next(self) -> Row | None:
        """Return the first open exercise, in a chapter begun if there is one.

        Whoever begins with chapter 7 is not sent back to chapter 2.
        """
        still = [row for row in self.rows if not row.is_done]
        begun = {row.stem for row in self.rows if row.sign != "·"}
        inside = [row for row in still if row.stem in begun]
        return next(iter(inside or still), None)

    def __repr__(self) -> str:
        lines = []
        for stem in CHAPTERS.values():
            lines.append(stem)
            for row in self._of(stem):
                worth = f"{row.points}/{row.exercise.points}"
                said = [x for x in (worth, *row.counts, row.last) if x]
                name = row.exercise.id
                lines.append(f"  {row.sign} {name:<24} {'  '.join(said)}")
        end = self.total
        if step := self.next:
            end += f". Next: {step.exercise.id}, in {step.stem}.ipynb"
        return "\n".join([*lines, end])

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th style="{_STYLE}">{name}</th>'
            for name in ("", "exercise", "points", "so far", "last time")
        )
        body = []
        for stem in CHAPTERS.values():
            rows = self._of(stem)
            points = sum(row.points for row in rows)
            worth = sum(row.exercise.points for row in rows)
            link = f'<a href="{stem}.ipynb">{stem}</a>'
            body.append(
                f'<tr><th colspan="2" style="{_STYLE}">{link}</th>'
                f'<th style="{_STYLE}" colspan="3">{points}/{worth}</th></tr>'
            )
            body += map(_html, rows)
        return (
            f"<p><b>{self.total}.</b> {self._next_step()}</p>"
            f"<table><thead><tr>{head}</tr></thead>"
            f"<tbody>{''.join(body)}</tbody></table>"
        )

    def _next_step(self) -> str:
        if not (step := self.next):
            return "Nothing is open: the book is done."
        help_at_hand = ""
        if step.sign == "✗":
            help_at_hand = f', <code>hint("{step.exercise.id}")</code> helps'
        return f"Next: {_link(step)}{help_at_hand}."

    def _of(self, stem: str) -> list[Row]:
        return [row for row in self.rows if row.stem == stem]


def _html(row: Row) -> str:
    name = row.exercise.id
    cells = [
        row.sign,
        name if row.is_done else _link(row),
        f"{row.points}/{row.exercise.points}",
        ", ".join(row.counts),
        escape(row.last),
    ]
    return "<tr>" + "".join(_cell(x) for x in cells) + "</tr>"


def _cell(text: str) -> str:
    return f'<td style="{_STYLE}">{text}</td>'


def _link(row: Row) -> str:
    """Link to the cell in which an exercise is written."""
    place = _cells(row.stem).get(row.exercise.id, "")
    anchor = f"#cell-id={place}" if place else ""
    return f'<a href="{row.stem}.ipynb{anchor}">{row.exercise.id}</a>'


@cache
def _cells(stem: str) -> dict[str, str]:
    """Return the id of each exercise's cell; a learner's copy keeps them."""
    key = next(key for key, name in CHAPTERS.items() if name == stem)
    notebook = json.loads(sources.notebook_path(key).read_text("utf-8"))
    found = {exercise_id(cell): cell["id"] for cell in notebook["cells"]}
    return {name: place for name, place in found.items() if name}
