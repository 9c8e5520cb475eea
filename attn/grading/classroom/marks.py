"""Read what a teacher gives by hand: points, late days, comments.

``marks.csv`` is beside the results of a batch. It is written once, with its
first line only, and from then on it is the teacher's::

    learner,exercise,points,late_days,comment
    ana,gqa-repeat_kv,1.5,,"right idea, wrong axis"
    bo,,,2,

A line with an exercise gives the points of that exercise, one without gives
the total. The results as they were judged stay as they are.
"""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

from attn.exercises import CHAPTERS
from attn.grading.classroom import answers
from attn.grading.classroom.result import Mark, Result

NAME = "marks.csv"
_HEAD = ("learner", "exercise", "points", "late_days", "comment")


@dataclass(frozen=True)
class Line:
    """A line of the file: about an exercise, or about all, if that is ""."""

    learner: str
    exercise: str
    points: float | None
    late_days: float
    comment: str


@dataclass(frozen=True)
class Remark:
    """Hold what a teacher says of a learner, beyond the exercises.

    Args:
        points: the total; None if it is the sum of the exercises'.
        late_days: that were taken.
        comments: that belong to no exercise.
    """

    points: float | None = None
    late_days: float = 0
    comments: tuple[str, ...] = ()


@dataclass(frozen=True)
class ByHand:
    """Hold the lines of a file."""

    lines: tuple[Line, ...] = ()

    def applied(
        self, results: Iterable[Result]
    ) -> tuple[list[Result], dict[str, Remark]]:
        """Return results with the marks by hand, and the remarks, by learner.

        A learner with points for an exercise of which nothing was judged,
        as when the file was unreadable, gets a result with that mark alone.
        """
        lines: defaultdict[str, list[Line]] = defaultdict(list)
        for x in self.lines:
            lines[x.learner].append(x)
        changed = [
            replace(x, marks=tuple(_changed(x.marks, lines[x.learner])))
            for x in results
        ]
        judged = {(x.learner, m.exercise) for x in changed for m in x.marks}
        seed = changed[0].seed if changed else 0
        remarks = {}
        for learner, own in lines.items():
            left = [x for x in own if (learner, x.exercise) not in judged]
            given = {x.exercise for x in left if x.points is not None} - {""}
            for chapter, names in _by_chapter(given).items():
                marks = _changed(map(_alone, names), left)
                name = f"{NAME} ({learner}), {chapter}"
                changed.append(
                    Result(
                        name, learner, chapter, marks=tuple(marks), seed=seed
                    )
                )
            said = [x for x in left if x.exercise not in given]
            late = sum(x.late_days for x in own)
            remarks[learner] = _remark(said, late)
        return changed, {k: x for k, x in remarks.items() if x != Remark()}


def _remark(lines: Iterable[Line], late_days: float) -> Remark:
    """Return what lines say of no exercise, or of one without a mark."""
    points, comments = None, []
    for x in lines:
        points = x.points if x.points is not None else points
        if x.comment:
            about = f"{x.exercise}: " if x.exercise else ""
            comments.append(about + x.comment)
    return Remark(points, late_days, tuple(comments))


def _changed(marks: Iterable[Mark], lines: Sequence[Line]) -> Iterator[Mark]:
    for mark in marks:
        for x in lines:
            if x.exercise == mark.exercise:
                if x.points is not None:
                    is_judged = mark.status != "by hand"
                    judged = mark.points if is_judged else None
                    mark = replace(mark, points=x.points, judged=judged)
                if x.comment:
                    mark = replace(mark, comments=(*mark.comments, x.comment))
        yield mark


def _by_chapter(exercises: Iterable[str]) -> dict[str, list[str]]:
    chapters: dict[str, list[str]] = {}
    for name in sorted(exercises):
        chapter = CHAPTERS[name.partition("-")[0]]
        chapters.setdefault(chapter, []).append(name)
    return chapters


def _alone(exercise: str) -> Mark:
    worth = answers.points(exercise.partition("-")[0])[exercise]
    return Mark(exercise, 0, worth, "by hand")


def prepare(path: Path) -> None:
    """Write the file's first line, unless there is a file."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(",".join(_HEAD) + "\n")
    except FileExistsError:
        pass


def read(path: Path, people: Mapping[str, Sequence[str]]) -> ByHand:
    """Return what a teacher wrote; nothing, if there is no file.

    Args:
        path: of the file.
        people: the names of the learners, and other names of each.

    Raises:
        ValueError: the file is no CSV in UTF-8, or a line is wrong: it names
            no learner of the batch or no exercise of the book, its points or
            late days are no number from 0, it says nothing, or gives points
            that another line gives.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return ByHand()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be a CSV in UTF-8; {error}") from None
    return ByHand(tuple(_Reader(path, people).lines(text)))


@dataclass
class _Reader:
    path: Path
    people: Mapping[str, Sequence[str]]
    points_of: dict[tuple[str, str], int] = field(default_factory=dict)

    def lines(self, text: str) -> Iterator[Line]:
        head = text.partition("\n")[0]
        delimiter = max(",;\t", key=head.count)
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        names: list[str] = []
        number = 1
        for row in rows:
            cells = [x.strip() for x in row]
            if any(cells) and not names:
                names = [x.lower().replace(" ", "_") for x in cells]
                if sorted(names) != sorted(_HEAD):
                    got = ", ".join(cells)
                    raise self._error(number, "the columns", _HEAD, got)
            elif any(cells):
                if len(cells) != len(names):
                    what = f"{len(names)} cells, one with a comma in quotes"
                    raise self._error(number, "a line", what, len(cells))
                yield self._line(number, dict(zip(names, cells, strict=True)))
            number = rows.line_num + 1

    def _line(self, number: int, cells: dict[str, str]) -> Line:
        learner = self._learner(number, cells["learner"])
        exercise = self._exercise(number, cells["exercise"])
        points = self._number(number, "points", cells["points"])
        late = self._number(number, "late_days", cells["late_days"])
        if points is not None:
            key = learner, exercise
            if before := self.points_of.get(key):
                what = f"points once, of {exercise or 'the total'}"
                raise self._error(number, learner, what, f"line {before} too")
            self.points_of[key] = number
        if points is None and late is None and not cells["comment"]:
            what = "points, late days or a comment"
            raise self._error(number, "a line", what, "none")
        return Line(learner, exercise, points, late or 0, cells["comment"])

    def _learner(self, number: int, name: str) -> str:
        found = [x for x, y in self.people.items() if name in (x, *y)]
        if len(found) > 1 and name:
            what = f"one of {', '.join(found)}; an id tells them apart"
            raise self._error(number, "learner", what, repr(name))
        if not found or not name:
            near = get_close_matches(name, self.people, 3) or [*self.people]
            what = f"one of the batch ({', '.join(near[:3])}, …)"
            raise self._error(number, "learner", what, repr(name))
        return found[0]

    def _exercise(self, number: int, name: str) -> str:
        key = name.partition("-")[0]
        known = answers.points(key) if key in CHAPTERS else {}
        if name and name not in known:
            near = ", ".join([*known] or [*answers.points("gqa")])
            what = f"empty or one of the book ({near}, …)"
            raise self._error(number, "exercise", what, repr(name))
        return name

    def _number(self, number: int, name: str, text: str) -> float | None:
        if not text:
            return None
        try:
            value = float(text.replace(",", "."))
            if math.isfinite(value) and value >= 0:
                return int(value) if value.is_integer() else value
        except ValueError:
            pass
        raise self._error(number, name, "a number, 0 or more", repr(text))

    def _error(
        self, number: int, name: str, need: object, got: object
    ) -> ValueError:
        need = ", ".join(need) if isinstance(need, tuple) else need
        return ValueError(
            f"{self.path}, line {number}: {name} must be {need}; got {got}"
        )
