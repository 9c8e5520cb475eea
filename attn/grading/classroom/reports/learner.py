"""Gather the submissions of one learner, and what counts of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attn.grading.classroom.marks import Remark
from attn.grading.classroom.reports.wording import by_hand, natural, number
from attn.grading.classroom.result import Mark, Result


@dataclass(frozen=True)
class Learner:
    """All submissions of one learner.

    Args:
        name: in the class's table.
        file: the stem of the files about this learner; unique in a batch.
        results: of each submission; none if nothing was handed in.
        remark: of the teacher, beyond the exercises.
    """

    name: str
    file: str
    results: tuple[Result, ...]
    remark: Remark = Remark()

    @classmethod
    def merged(cls, learners: Sequence[Learner]) -> Learner:
        """Return one learner with the submissions of several."""
        results = tuple(x for learner in learners for x in learner.results)
        totals = [x.remark for x in learners if x.remark.points is not None]
        return replace(
            learners[0],
            results=results,
            remark=(totals or [learners[0].remark])[0],
        )

    @cached_property
    def counted(self) -> dict[str, Result]:
        """The submission of each chapter that counts.

        The latest attempt, where a platform gives their order; else the best
        one, and of equal ones the first.
        """
        best: dict[str, Result] = {}
        for result in self.results:
            if result.status == "graded":
                chapter = result.chapter or "no chapter"
                best.setdefault(chapter, result)
                if _precedence(result) > _precedence(best[chapter]):
                    best[chapter] = result
        return {name: best[name] for name in sorted(best, key=natural)}

    @property
    def replaced(self) -> dict[str, str]:
        """The submissions that were graded and do not count, with reasons."""
        counted = self.counted
        return {
            x.submission: _why_not(counted[x.chapter or "no chapter"], x)
            for x in self.results
            if x.status == "graded" and x not in counted.values()
        }

    @cached_property
    def marks(self) -> dict[str, Mark]:
        """The marks that count, by exercise."""
        counted = self.counted.values()
        return {x.exercise: x for result in counted for x in result.marks}

    @property
    def unreadable(self) -> tuple[Result, ...]:
        """The submissions that could not be graded."""
        return tuple(x for x in self.results if x.status == "unreadable")

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of this learner on a platform."""
        return tuple(dict.fromkeys(y for x in self.results for y in x.ids))

    @property
    def has_points(self) -> bool:
        """False where nothing could be graded: that is no 0."""
        return bool(self.counted) or self.remark.points is not None

    @property
    def status(self) -> str:
        """State in words what is there."""
        if not self.results:
            return "nothing handed in"
        return "graded" if self.counted else "unreadable"

    @property
    def points(self) -> float:
        """The points of the submissions that count, or the teacher's total."""
        if self.remark.points is not None:
            return self.remark.points
        return sum(x.points for x in self.counted.values())

    @property
    def by_hand(self) -> list[str]:
        """The changes and the notes of the teacher, a line for each."""
        of_marks = [
            f"{x.exercise}: {line}"
            for x in self.marks.values()
            for line in by_hand(x)
        ]
        return of_marks + self.said

    @property
    def said(self) -> list[str]:
        """The teacher's lines that are about no mark."""
        lines, remark = [], self.remark
        if remark.points is not None:
            judged = sum(x.points for x in self.counted.values())
            total = f"total: {number(remark.points)} points by hand"
            has = f"; the exercises have {number(judged)}"
            lines.append(total + has * bool(self.counted))
        if remark.late_days:
            lines.append(f"late days: {number(remark.late_days)}")
        return [*lines, *remark.comments]

    @property
    def max_points(self) -> float:
        """The points that the chapters handed in are worth."""
        return sum(x.max_points for x in self.counted.values())


def _precedence(result: Result) -> tuple[tuple[int, ...], float]:
    return result.attempt, result.points


def _why_not(counted: Result, other: Result) -> str:
    if counted.attempt > other.attempt:
        return f"{counted.submission} was handed in later, and counts"
    return f"{counted.submission} has as many points or more, and counts"
