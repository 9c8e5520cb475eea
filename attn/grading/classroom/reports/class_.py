"""Gather the results of a class by learner, exercise and mistake."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

from attn.grading.classroom.result import ByHand, Mark, Result, clean, number

#: Stems that get a digest: none, one that Windows keeps for itself, and one
#: that looks as if it had a digest.
_ODD = re.compile(r"(con|prn|aux|nul|com\d|lpt\d|.*-[0-9a-f]{16})?", re.I)


@dataclass(frozen=True)
class Learner:
    """All submissions of one learner, and what counts of them.

    Args:
        name: in the class's table.
        file: the stem of the files about this learner; unique in a class.
        results: of each submission; none if nothing was handed in.
        total: of all points, if a teacher gave one by hand.
        comment: of the teacher, about no exercise.
    """

    name: str
    file: str
    results: list[Result]
    total: float | None = None
    comment: str = ""

    @cached_property
    def counted(self) -> dict[str, Result]:
        """The submission of each chapter that counts.

        The latest attempt, where a platform gives their order; else the best
        one, and of equal ones the first.
        """
        graded = [x for x in self.results[::-1] if x.status == "graded"]
        ranked = sorted(graded, key=attrgetter("attempt", "points"))
        best = {str(x.chapter): x for x in ranked}
        return {name: best[name] for name in sorted(best, key=natural)}

    @property
    def replaced(self) -> dict[str, str]:
        """The submissions that were graded and do not count, with reasons."""
        reasons = {}
        for x in self.results:
            counts = self.counted.get(str(x.chapter), x)
            how = "has as many points or more"
            if counts.attempt > x.attempt:
                how = "was handed in later"
            if counts is not x:
                said = f"{counts.submission} {how}, and counts"
                reasons[x.submission] = said
        return reasons

    @cached_property
    def marks(self) -> dict[str, Mark]:
        """The marks that count, by exercise."""
        counted = self.counted.values()
        return {x.exercise: x for result in counted for x in result.marks}

    @property
    def status(self) -> str:
        """State in words what is there."""
        if not self.results:
            return "nothing handed in"
        return "graded" if self.counted else "unreadable"

    @property
    def has_points(self) -> bool:
        """False where nothing could be graded: that is no 0."""
        return bool(self.counted) or self.total is not None

    @property
    def judged(self) -> float:
        """The points of the submissions that count."""
        return sum(x.points for x in self.counted.values())

    @property
    def points(self) -> float:
        """The teacher's total, or the points that were judged."""
        return self.judged if self.total is None else self.total

    @property
    def max_points(self) -> float:
        """The points that the chapters handed in are worth."""
        return sum(x.max_points for x in self.counted.values())

    @property
    def by_hand(self) -> list[str]:
        """The teacher's total and comment, a line for each."""
        lines = [self.comment] if self.comment else []
        if self.total is not None:
            total = f"total: {number(self.total)} points by hand"
            judged = f"the exercises have {number(self.judged)}"
            lines = [f"{total}; {judged}", *lines]
        return lines


class Class:
    """The learners of a class, in the order of their names.

    Args:
        results: of all submissions, in any order.
        by_hand: the totals, and comments, of a teacher.
        absent: the learners without a submission.
    """

    def __init__(
        self,
        results: Iterable[Result],
        by_hand: ByHand | None = None,
        absent: Iterable[str] = (),
    ) -> None:
        hand = (by_hand or {}).items()
        given = {clean(who): x for (who, of), x in hand if not of}
        groups: dict[str, list[Result]] = {clean(x): [] for x in absent}
        for result in map(clean, results):
            groups.setdefault(result.learner, []).append(result)
        files = file_names(groups)
        self.learners: list[Learner] = []
        for name in sorted(groups, key=natural):
            own = sorted(groups[name], key=lambda x: natural(x.submission))
            total, comment = given.get(name, (None, ""))
            self.learners.append(
                Learner(name, files[name], own, total, clean(comment))
            )
        #: In the order of the learners.
        self.results = [y for x in self.learners for y in x.results]
        self.unreadable = [x for x in self.results if x.status == "unreadable"]
        #: All marks that count, with their learners.
        self.marks = [(x, y) for x in self.learners for y in x.marks.values()]
        #: The learners with points: of what was graded, or by hand.
        self.graded = [x for x in self.learners if x.has_points]
        found = {
            name: {x.exercise: x.max_points for x in result.marks}
            for learner in self.learners
            for name, result in learner.counted.items()
        }
        #: The exercises of each chapter, and the points of each.
        self.chapters = {x: found[x] for x in sorted(found, key=natural)}
        self.exercises = [x for y in self.chapters.values() for x in y]
        #: Of a learner with every exercise of every chapter.
        self.max_points = sum(sum(x.values()) for x in self.chapters.values())

    @cached_property
    def hardest(self) -> list[dict[str, Any]]:
        """The exercises, and how many answers are right, the hardest first."""
        rows = []
        for name in sorted(self.exercises):
            marks = [x for _, x in self.marks if x.exercise == name]
            mistakes = Counter(x.mistake for x in marks if x.mistake)
            rows.append(
                {
                    "exercise": name,
                    "passed": sum(x.passed for x in marks),
                    "open": sum(x.is_open for x in marks),
                    "graded": len(marks),
                    "most_often": mistakes.most_common(1),
                }
            )
        return sorted(rows, key=lambda x: x["passed"] / x["graded"])

    @cached_property
    def misconceptions(self) -> list[dict[str, Any]]:
        """The mistakes that have a name, the most common first.

        Each has the exercises in which it was made, with how often, the
        learners that made it, and what explains it in the first exercise.
        """
        rows: list[dict[str, Any]] = []
        for name in sorted({x.mistake for _, x in self.marks if x.mistake}):
            cases = [(x, y) for x, y in self.marks if y.mistake == name]
            counts = Counter(sorted(x.exercise for _, x in cases))
            where = dict(counts.most_common())
            first = next(x for _, x in cases if x.exercise == [*where][0])
            title, *paragraphs = [*first.details.splitlines(), "", ""]
            why = paragraphs[0] if name in title else ""
            learners = [*{x.name: x for x, _ in cases}.values()]
            row = {"mistake": name, "why": why, "exercises": where}
            rows.append(row | {"learners": learners})
        return sorted(rows, key=lambda x: -len(x["learners"]))

    def bins(self) -> list[tuple[str, int]]:
        """Return how many of the graded learners have how many points."""
        if not (most := self.max_points):
            return []
        fine = most <= 20
        last, scale = (int(most), 1.0) if fine else (9, 10 / most)
        sizes = Counter(
            min(int(scale * x.points + 1e-9), last) for x in self.graded
        )
        return [
            (str(i) if fine else f"{10 * i} %", sizes[i])
            for i in range(last + 1)
        ]


def natural(name: str) -> tuple[Any, ...]:
    """Return a key that sorts ``student2`` before ``student10``."""
    pieces = re.split(r"(\d{1,400})", name.casefold())
    return [int(x) if i % 2 else x for i, x in enumerate(pieces)], name


def file_names(names: Iterable[str]) -> dict[str, str]:
    """Return a stem for the files of each name, good on any file system.

    Where two names have one stem, or differ by case only, each gets a digest:
    the stems depend on the set of names alone.
    """
    stems = {}
    for name in names:
        plain = unicodedata.normalize("NFC", name)
        plain = re.sub(r"[^\w.-]+", "-", plain).strip(".-")
        stems[name] = plain[:48].rstrip(".-")
    taken = Counter(x.casefold() for x in stems.values())
    return {
        name: f"{stem}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
        if taken[stem.casefold()] > 1 or _ODD.fullmatch(stem)
        else stem
        for name, stem in stems.items()
    }
