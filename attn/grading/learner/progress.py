"""Keep a learner's progress, and show it with the next step.

``.attn/progress.json`` beside the notebooks has an entry for each exercise:
the verdict of the answer that counts. The text of an answer that was reset, or
that was right before a wrong one, is in ``kept answers/``, which a file
browser shows. Nothing is written under pytest, nor under nbgrader.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attn.data.files import write
from attn.exercises import CHAPTERS, begun, kept, place, saved
from attn.exercises.answers import Note, digest
from attn.exercises.spec import chapter
from attn.exercises.wrapping import wrapped
from attn.grading.learner import cards

if TYPE_CHECKING:
    from attn.exercises.finding import Found
    from attn.grading.diagnosis.judge import Verdict

Entries = dict[str, dict[str, Any]]
"""What is stored of each exercise, by its id."""

_BAR = 20  # signs


def progress() -> None:
    """Show your progress in the whole book, and the next step.

    A notebook shows a bar for each chapter, which opens on its exercises;
    those that are still open are links to their cells.
    """
    from IPython.display import display

    display(Progress(load()))


def _file() -> Path:
    """Return where progress is kept: a kernel runs beside its notebook."""
    return Path.cwd() / ".attn" / "progress.json"


def load() -> Entries:
    """Return the entries by exercise id; none when there is no file."""
    entries = _stored()
    for name in begun.begun():  # its answer is no right one
        said = "its check has not ended: did the kernel end in it?"
        entries[name] = {**entries.get(name, {}), "passed": None, "last": said}
    return entries


def _stored() -> Entries:
    try:
        entries = json.loads(_file().read_text("utf-8"))
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
    entries = _stored()
    entries[exercise_id] = {**entries.get(exercise_id, {}), **entry}
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    with contextlib.suppress(OSError):
        write(_file(), text)


def settle(
    exercise_id: str, verdict: Verdict, found: Found | None = None
) -> None:
    """Store the verdict of the answer that counts, if it was found.

    What is not judged, or not written, is no attempt. A right answer that
    no longer counts is kept as a file.
    """
    if not cards.is_enabled():
        return
    before = load().get(exercise_id, {})
    text, uses = (found.text, found.uses) if found else ("", {})
    entry: dict[str, Any] = {"text": digest(text) if text else ""}
    entry |= {"uses": uses, "at": time.time()}
    is_new = not text or before.get("text") != entry["text"]
    is_attempt = is_new and verdict.written and verdict.judged
    entry["attempts"] = before.get("attempts", 0) + is_attempt
    entry |= {"passed": None, "last": "", "refused": not verdict.judged}
    if verdict.passed:
        now = time.strftime("%Y-%m-%d %H:%M")
        entry |= {"passed": before.get("passed") or now, "answer": text}
        entry |= {"right": None, "kept": None}
    elif before.get("passed"):
        entry |= {"right": before["passed"], "kept": ""}
        with contextlib.suppress(OSError):
            entry["kept"] = kept.keep(exercise_id, before.get("answer", ""))
    if verdict.written and not verdict.passed:
        entry["last"] = verdict.mistake or verdict.message.partition("\n")[0]
    update(exercise_id, **entry)


def was_right(exercise_id: str) -> list[str]:
    """Return a sentence on a right answer that no longer counts; its path."""
    entry = load().get(exercise_id, {})
    if not entry.get("right"):
        return []
    end = ": that answer is in" if entry["kept"] else "."
    said = f"It was right on {entry['right']}{end}"
    return [said, entry["kept"]] if entry["kept"] else [said]


def noted(exercise_id: str) -> Note | None:
    """Return what a check's card notes of the answer that counts."""
    entry = load().get(exercise_id, {})
    if not entry.get("text"):
        return None
    uses = [*entry.get("uses", {}).values()]
    return Note(
        exercise_id, entry["text"], entry["refused"], time.time(), uses
    )


@dataclass(frozen=True)
class Row:
    """An exercise, and how far the learner has come with it."""

    id: str
    worth: int
    stem: str
    entry: dict[str, Any]
    file: saved.Saved = saved.Saved()

    @property
    def is_done(self) -> bool:
        return bool(self.entry.get("passed"))

    @property
    def points(self) -> int:
        return self.worth if self.is_done else 0

    @property
    def sign(self) -> str:
        if self.is_done:
            return "✓"
        return "✗" if self.entry.get("last") else "·"

    @property
    def is_changed(self) -> bool:
        """Return whether the chapter's file has lost what was right."""
        text, at = self.entry.get("text"), self.entry.get("at", 0)
        is_newer = bool(self.file.texts) and self.file.at > at
        return bool(self.is_done and is_newer and text not in self.file.texts)

    @property
    def facts(self) -> list[str]:
        """Return points, and how often it was checked, with how many hints."""
        fields = [("attempts", "checks: "), ("hints", "hints: ")]
        fields += [] if self.last else [("right", "right on ")]
        return (
            [f"{self.points}/{self.worth}"]
            + [
                f"{label}{self.entry[field]}"
                for field, label in fields
                if self.entry.get(field)
            ]
            + ["changed since its check: check it again"] * self.is_changed
        )

    @property
    def at(self) -> place.Place:
        """Return its title, and the address of the cell that it is in."""
        return place.place(self.id)

    @property
    def last(self) -> str:
        """Return what was wrong at the last check of an open exercise."""
        said = "" if self.is_done else str(self.entry.get("last") or "")
        right = self.entry.get("right") if said else None
        return f"{said} (right on {right})" if right else said


class Points:
    """The points of exercises: those that a learner has, and all."""

    rows: list[Row]

    @property
    def points(self) -> int:
        return sum(row.points for row in self.rows)

    @property
    def worth(self) -> int:
        return sum(row.worth for row in self.rows)

    @property
    def share(self) -> float:
        return self.points / self.worth

    @property
    def total(self) -> str:
        return f"{self.points} of {self.worth} points"


class ChapterProgress(Points):
    """A chapter, and how far the learner has come with it."""

    def __init__(self, key: str, entries: Entries) -> None:
        self.number = [*CHAPTERS].index(key) + 1
        self.title, self.stem = place.chapter(key).title, CHAPTERS[key]
        worth = place.points(key) or {x.id: x.points for x in chapter(key)}
        is_begun = any(entries.get(name, {}).get("passed") for name in worth)
        path = Path(f"{self.stem}.ipynb")
        file = saved.of(path) if is_begun else saved.Saved()
        self.rows = [
            Row(name, points, self.stem, entries.get(name, {}), file)
            for name, points in worth.items()
        ]

    def after(self, name: str = "") -> Row | None:
        """Return the next open exercise; after the last comes the first."""
        at = [row.id for row in self.rows].index(name) if name else 0
        rows = self.rows[at:] + self.rows[:at]
        return next((row for row in rows if not row.is_done), None)

    @property
    def following(self) -> place.Place | None:
        """Return the title and the address of the next chapter."""
        for key, stem in [*CHAPTERS.items()][self.number :][:1]:
            return place.Place(place.chapter(key).title, f"{stem}.ipynb")
        return None


class Progress(Points):
    """The bars that ``progress()`` shows, as text and as HTML."""

    def __init__(self, entries: Entries) -> None:
        self.chapters = [ChapterProgress(key, entries) for key in CHAPTERS]
        self.rows = [row for x in self.chapters for row in x.rows]
        self._own = CHAPTERS.get(saved.chapter_here())

    @property
    def next(self) -> Row | None:
        """Return the first open exercise: of the notebook's own chapter.

        Else of one begun: whoever begins with 7 is not sent back to 2.
        """
        still = [row for row in self.rows if not row.is_done]
        begun = {row.stem for row in self.rows if row.sign != "·"}
        inside = [row for row in still if row.stem in begun]
        own = [row for row in still if row.stem == self._own]
        return next(iter(own or inside or still), None)

    @property
    def here(self) -> ChapterProgress | None:
        """Return the chapter of the next exercise."""
        step = self.next
        return next((x for x in self.chapters if step in x.rows), None)

    def __repr__(self) -> str:
        lines = []
        for x in self.chapters:
            full = int(_BAR * x.share)
            bar = "█" * full + "░" * (_BAR - full)
            worth = f"{x.points}/{x.worth}"
            lines.append(f"{x.number:>2}  {x.title:<34} {bar} {worth:>6}")
        for row in self.here.rows if self.here else []:
            if not row.is_done or row.is_changed:
                facts = "  ".join(row.facts)
                lines.append(f"  {row.sign} {row.id:<24} {facts}")
                lines += wrapped(row.last, " " * 6)
        end = self.total
        if step := self.next:
            end += f". Next: {step.id}, in {step.stem}.ipynb"
        return "\n".join([*lines, end])

    def _repr_html_(self) -> str:
        return cards.html("progress", self, page="progress.html")
