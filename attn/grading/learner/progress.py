"""Keep a learner's progress, and show it with the next step.

It is kept in ``.attn/`` beside the notebooks: ``progress.json`` has an entry
for each exercise, ``kept/`` the text of every answer that was reset. Nothing
is written under pytest, nor under nbgrader.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from attn.exercises import CHAPTERS, place
from attn.exercises.markdown import as_html
from attn.exercises.spec import Exercise, chapter
from attn.grading.checks.show import wrapped
from attn.grading.learner import cards

Entries = dict[str, dict[str, Any]]

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

    display(Progress(load()))


def folder() -> Path:
    """Return where progress is kept: a kernel runs beside its notebook."""
    return Path.cwd() / ".attn"


def load() -> Entries:
    """Return the entries by exercise id; none when there is no file."""
    path = folder() / "progress.json"
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return entries if isinstance(entries, dict) else {}


def update(exercise_id: str, **entry: Any) -> None:
    """Change one entry.

    A folder that cannot be written to is no error: a check must not fail
    because of it.
    """
    if not cards.is_enabled():
        return
    entries = load()
    entries[exercise_id] = {**entries.get(exercise_id, {}), **entry}
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    with contextlib.suppress(OSError):
        _write(folder() / "progress.json", text)


def keep_answer(exercise_id: str, text: str) -> Path:
    """Save the text of an answer before it is replaced."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = folder() / "kept" / f"{exercise_id}-{stamp}.py"
    number = 1
    while path.exists():
        number += 1
        path = path.with_name(f"{exercise_id}-{stamp}-{number}.py")
    _write(path, text + "\n")
    return path


def _write(path: Path, text: str) -> None:
    """Replace a file in one step, so that a crash never leaves half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


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
        return cards.link(found.address, found.title)

    @property
    def last(self) -> str:
        """Return what was wrong at the last check of an open exercise."""
        return "" if self.is_done else str(self.entry.get("last") or "")

    @property
    def html(self) -> str:
        name = escape(place.place(self.exercise.id).title)
        said = f"{self.sign} {name if self.is_done else self.link}"
        said += f" <code>{self.exercise.id}</code> {', '.join(self.facts)}"
        said += f"<br>{as_html(self.last)}" if self.last else ""
        return f'<li style="margin:.2em 0">{said}</li>'


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


class ChapterProgress(Points):
    """A chapter, and how far the learner has come with it.

    Args:
        key: of the chapter.
        entries: the stored entries, by exercise id.
    """

    def __init__(self, key: str, entries: Entries) -> None:
        self.number = [*CHAPTERS].index(key) + 1
        self.title, self.stem = place.chapter(key).title, CHAPTERS[key]
        self.rows = [
            Row(x, self.stem, entries.get(x.id, {})) for x in chapter(key)
        ]

    def bar(self, width: str) -> str:
        """Return number, title, a bar and points, side by side, as HTML."""
        return (
            f'<span style="{_GRID};width:{width}"><span>{self.number}</span> '
            f"<span>{escape(self.title)}</span> {cards.bar(self.share)} "
            f'<span style="text-align:right">{self.points}/{self.worth}</span>'
            "</span>"
        )

    def after(self, name: str) -> str:
        """Return a link to the next open exercise, or to the next chapter.

        After the last exercise of the chapter comes the first.
        """
        at = [row.exercise.id for row in self.rows].index(name)
        for row in self.rows[at:] + self.rows[:at]:
            if not row.is_done:
                return (
                    f"Next: <b>{row.link}</b> <code>{row.exercise.id}</code>"
                )
        said = f"All {len(self.rows)} exercises of this chapter are done."
        for key, stem in [*CHAPTERS.items()][self.number :][:1]:
            title = place.chapter(key).title
            said += f" Next: {cards.link(f'{stem}.ipynb', title)}"
        return said

    @property
    def html(self) -> str:
        """Return the chapter's exercises, and a link to it."""
        items = "".join(row.html for row in self.rows)
        style = "list-style:none;margin:.2em 0 .8em;padding-left:1.8em"
        there = cards.link(f"{self.stem}.ipynb", f"{self.stem}.ipynb")
        return f'<ul style="{style}">{items}<li>{there}</li></ul>'


class Progress(Points):
    """The bars that ``progress()`` shows, as text and as HTML.

    Args:
        entries: the stored entries, by exercise id.
    """

    def __init__(self, entries: Entries) -> None:
        self.chapters = [ChapterProgress(key, entries) for key in CHAPTERS]
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
        for row in self.rows:
            if not step or row.is_done or row.stem != step.stem:
                continue
            name = row.exercise.id
            lines.append(f"  {row.sign} {name:<24} {'  '.join(row.facts)}")
            lines += wrapped(row.last, " " * 6) if row.last else []
        end = self.total
        if step:
            end += f". Next: {step.exercise.id}, in {step.stem}.ipynb"
        return "\n".join([*lines, end])

    def _repr_html_(self) -> str:
        here = self.next.stem if self.next else ""
        bars = "".join(
            cards.folded(x.bar("92%"), x.html, is_open=x.stem == here)
            for x in self.chapters
        )
        return (
            f'<div style="max-width:46em;line-height:1.5">{self._step()}'
            f"{cards.line(f'<b>{self.total}</b>')}{bars}</div>"
        )

    def _step(self) -> str:
        if not (step := self.next):
            return cards.line("Nothing is open: the book is done.")
        title = next(x.title for x in self.chapters if x.stem == step.stem)
        said = f"Next: <b>{step.link}</b>, in {escape(title)}"
        if step.sign == "✗":
            call = cards.code(f'hint("{step.exercise.id}")')
            said += f". {call} helps"
        return cards.line(said, "margin:0;font-size:1.2em")
