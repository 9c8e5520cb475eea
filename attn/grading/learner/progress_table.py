"""Show a learner's progress in the whole book, and the next step."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from attn.exercises import CHAPTERS, sources
from attn.exercises.cells import exercise_id
from attn.exercises.spec import Exercise, chapter
from attn.grading.checks.show import wrapped
from attn.grading.learner import progress_store


def progress() -> None:
    """Show your progress in the whole book, and the next step.

    In Jupyter it is a table, in which the exercises that are still open are
    links to their cells.
    """
    from IPython.display import display

    display(Progress(progress_store.load()))


class Link(NamedTuple):
    """A link to a cell, in a table."""

    address: str
    text: str

    def _repr_html_(self) -> str:
        return f'<a href="{self.address}">{self.text}</a>'


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
    def link(self) -> Link:
        """Return a link to the cell in which the exercise is written."""
        place = _cells(self.stem).get(self.exercise.id, "")
        anchor = f"#cell-id={place}" if place else ""
        return Link(f"{self.stem}.ipynb{anchor}", self.exercise.id)

    @property
    def cells(self) -> list[Any]:
        """Return the row of the table."""
        name = self.exercise.id if self.is_done else self.link
        worth = f"{self.points}/{self.exercise.points}"
        return [self.sign, name, worth, ", ".join(self.counts), self.last]

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
                said = [x for x in (worth, *row.counts) if x]
                name = row.exercise.id
                lines.append(f"  {row.sign} {name:<24} {'  '.join(said)}")
                lines += wrapped(row.last, " " * 6) if row.last else []
        end = self.total
        if step := self.next:
            end += f". Next: {step.exercise.id}, in {step.stem}.ipynb"
        return "\n".join([*lines, end])

    def _repr_html_(self) -> str:
        from attn.plot import Table  # only here, for it loads matplotlib

        body: list[list[Any]] = []
        for stem in CHAPTERS.values():
            rows = self._of(stem)
            points = sum(row.points for row in rows)
            worth = sum(row.exercise.points for row in rows)
            chapter_link = Link(f"{stem}.ipynb", stem)
            body.append(["", chapter_link, f"{points}/{worth}", "", ""])
            body += [row.cells for row in rows]
        head = ("", "exercise", "points", "so far", "last time")
        table = Table(head, body)._repr_html_()
        return f"<p><b>{self.total}.</b> {self._next_step()}</p>{table}"

    def _next_step(self) -> str:
        if not (step := self.next):
            return "Nothing is open: the book is done."
        help_at_hand = ""
        if step.sign == "✗":
            help_at_hand = f', <code>hint("{step.exercise.id}")</code> helps'
        return f"Next: {step.link._repr_html_()}{help_at_hand}."

    def _of(self, stem: str) -> list[Row]:
        return [row for row in self.rows if row.stem == stem]


@cache
def _cells(stem: str) -> dict[str, str]:
    """Return the id of each exercise's cell; a learner's copy keeps them."""
    key = next(key for key, name in CHAPTERS.items() if name == stem)
    notebook = json.loads(sources.notebook_path(key).read_text("utf-8"))
    found = {exercise_id(cell): cell["id"] for cell in notebook["cells"]}
    return {name: place for name, place in found.items() if name}
