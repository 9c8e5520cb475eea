"""Show a learner's progress in the whole book, and the next step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from attn.exercises import CHAPTERS
from attn.exercises.markdown import as_html
from attn.exercises.spec import Exercise, chapter
from attn.grading.checks.show import wrapped
from attn.grading.learner import card, place, progress_store

_BAR = 20  # signs
#: Number, title, bar, points; in a narrow pane the title is wrapped.
_GRID = (
    "display:inline-grid;grid-template-columns:1.6em 6fr 4fr 3.5em;"
    "gap:.2em .7em;align-items:center;vertical-align:middle"
)


def progress() -> None:
    """Show your progress in the whole book, and the next step.

    A notebook shows a bar for each chapter, which opens on its exercises;
    those that are still open are links to their cells.
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
    def facts(self) -> list[str]:
        """Return points, and how often it was checked, with how many hints."""
        fields = (("attempts", "checks"), ("hints", "hints"))
        return [f"{self.points}/{self.exercise.points}"] + [
            f"{label}: {self.entry[field]}"
            for field, label in fields
            if self.entry.get(field)
        ]

    @property
    def link(self) -> str:
        """Return a link to the cell in which the exercise is written."""
        found = place.place(self.exercise.id)
        return card.link(found.address, found.title)

    @property
    def last(self) -> str:
        """Return what was wrong at the last check of an open exercise."""
        return "" if self.is_done else str(self.entry.get("last") or "")


class Points:
    """The points of exercises: those that a learner has, and all."""

    rows: list[Row]

    @property
    def points(self) -> int:
        return sum(row.points for row in self.rows)

    @property
    def worth(self) -> int:
        return sum(row.exercise.points for row in self.rows)

    @property
    def share(self) -> float:
        return self.points / self.worth

    @property
    def total(self) -> str:
        return f"{self.points} of {self.worth} points"


@dataclass(frozen=True)
class ChapterProgress(Points):
    """A chapter, and how far the learner has come with it."""

    number: int
    title: str
    stem: str
    rows: list[Row]

    @classmethod
    def of(
        cls, key: str, entries: dict[str, dict[str, Any]]
    ) -> ChapterProgress:
        """Return a chapter, with the stored entries of its exercises."""
        stem, title = CHAPTERS[key], place.chapter(key).title
        rows = [Row(x, stem, entries.get(x.id, {})) for x in chapter(key)]
        return cls([*CHAPTERS].index(key) + 1, title, stem, rows)

    def bar(self, width: str) -> str:
        """Return number, title, a bar and points, side by side, as HTML."""
        return (
            f'<span style="{_GRID};width:{width}"><span>{self.number}</span> '
            f"<span>{escape(self.title)}</span> {card.bar(self.share)} "
            f'<span style="text-align:right">{self.points}/{self.worth}</span>'
            "</span>"
        )

    def open_after(self, name: str) -> Row | None:
        """Return the next open exercise; after the last one, the first."""
        at = [row.exercise.id for row in self.rows].index(name)
        rows = self.rows[at:] + self.rows[:at]
        return next((row for row in rows if not row.is_done), None)


class Progress(Points):
    """The bars that ``progress()`` shows, as text and as HTML.

    Args:
        entries: the stored entries, by exercise id.
    """

    def __init__(self, entries: dict[str, dict[str, Any]]) -> None:
        self.chapters = [ChapterProgress.of(key, entries) for key in CHAPTERS]
        self.rows = [row for x in self.chapters for row in x.rows]

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
        lines, step = [], self.next
        for x in self.chapters:
            full = int(_BAR * x.share)
            bar = "█" * full + "░" * (_BAR - full)
            worth = f"{x.points}/{x.worth}"
            lines.append(f"{x.number:>2}  {x.title:<34} {bar} {worth:>6}")
        for row in self._open_beside(step):
            name = row.exercise.id
            lines.append(f"  {row.sign} {name:<24} {'  '.join(row.facts)}")
            lines += wrapped(row.last, " " * 6) if row.last else []
        end = self.total
        if step:
            end += f". Next: {step.exercise.id}, in {step.stem}.ipynb"
        return "\n".join([*lines, end])

    def _open_beside(self, step: Row | None) -> Iterable[Row]:
        if not step:
            return []
        return [x for x in self.rows if x.stem == step.stem and not x.is_done]

    def _repr_html_(self) -> str:
        here = self.next.stem if self.next else ""
        bars = "".join(
            card.folded(x.bar("92%"), _exercises(x), is_open=x.stem == here)
            for x in self.chapters
        )
        return (
            f'<div style="max-width:46em;line-height:1.5">{self._step()}'
            f"{card.line(f'<b>{self.total}</b>')}{bars}</div>"
        )

    def _step(self) -> str:
        if not (step := self.next):
            return card.line("Nothing is open: the book is done.")
        title = next(x.title for x in self.chapters if x.stem == step.stem)
        said = f"Next: <b>{step.link}</b>, in {escape(title)}"
        if step.sign == "✗":
            call = card.code(f'hint("{step.exercise.id}")')
            said += f". {call} helps"
        return f'<p style="margin:0;font-size:1.2em">{said}</p>'


def _exercises(part: ChapterProgress) -> str:
    """Return a chapter's exercises, and a link to it."""
    items = "".join(
        f'<li style="margin:.2em 0">{_exercise(row)}</li>' for row in part.rows
    )
    style = "list-style:none;margin:.2em 0 .8em;padding-left:1.8em"
    there = card.link(f"{part.stem}.ipynb", f"{part.stem}.ipynb")
    return f'<ul style="{style}">{items}<li>{there}</li></ul>'


def _exercise(row: Row) -> str:
    name = escape(place.place(row.exercise.id).title)
    said = f"{row.sign} {name if row.is_done else row.link}"
    said += f" <code>{row.exercise.id}</code> {', '.join(row.facts)}"
    return said + (f"<br>{as_html(row.last)}" if row.last else "")
