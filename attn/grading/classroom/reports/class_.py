"""Gather the results of a class by learner, exercise and mistake."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from attn.grading.classroom.marks import ByHand
from attn.grading.classroom.reports.wording import clean, natural, number
from attn.grading.classroom.result import Mark, Result

#: Names that Windows keeps for itself, whatever their ending.
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.I)
_DIGEST = re.compile("-[0-9a-f]{16}$", re.I)


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
    results: tuple[Result, ...]
    total: float | None = None
    comment: str = ""

    @cached_property
    def counted(self) -> dict[str, Result]:
        """The submission of each chapter that counts.

        The latest attempt, where a platform gives their order; else the best
        one, and of equal ones the first.
        """
        best: dict[str, Result] = {}
        for x in self.results:
            if x.status == "graded":
                other = best.setdefault(x.chapter or "no chapter", x)
                if (x.attempt, x.points) > (other.attempt, other.points):
                    best[x.chapter or "no chapter"] = x
        return {name: best[name] for name in sorted(best, key=natural)}

    @property
    def replaced(self) -> dict[str, str]:
        """The submissions that were graded and do not count, with reasons."""
        reasons = {}
        for x in self.results:
            counts = self.counted.get(x.chapter or "no chapter", x)
            if x.status == "graded" and counts is not x:
                how = "has as many points or more"
                if counts.attempt > x.attempt:
                    how = "was handed in later"
                reasons[x.submission] = (
                    f"{counts.submission} {how}, and counts"
                )
        return reasons

    @cached_property
    def marks(self) -> dict[str, Mark]:
        """The marks that count, by exercise."""
        counted = self.counted.values()
        return {x.exercise: x for result in counted for x in result.marks}

    @property
    def unreadable(self) -> list[Result]:
        """The submissions that could not be graded."""
        return [x for x in self.results if x.status == "unreadable"]

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
    def points(self) -> float:
        """The points of the submissions that count, or the teacher's total."""
        judged = sum(x.points for x in self.counted.values())
        return judged if self.total is None else self.total

    @property
    def max_points(self) -> float:
        """The points that the chapters handed in are worth."""
        return sum(x.max_points for x in self.counted.values())

    @property
    def by_hand(self) -> list[str]:
        """The teacher's total and comment, a line for each."""
        lines = [self.comment] if self.comment else []
        if self.total is not None:
            judged = number(sum(x.points for x in self.counted.values()))
            total = f"total: {number(self.total)} points by hand"
            lines = [f"{total}; the exercises have {judged}", *lines]
        return lines


@dataclass(frozen=True)
class Misconception:
    """A mistake, and where it was made.

    Args:
        name: of the mistake.
        why: the paragraph that explains it in the first of ``exercises``.
        exercises: in which it was made, and how often; most often first.
        learners: that made it, each once.
    """

    name: str
    why: str
    exercises: dict[str, int]
    learners: tuple[Learner, ...]


@dataclass(frozen=True)
class Class:
    """The learners of a class, in the order of their names."""

    learners: tuple[Learner, ...]

    @classmethod
    def of(
        cls,
        results: Iterable[Result],
        by_hand: ByHand | None = None,
        absent: Iterable[str] = (),
    ) -> Class:
        """Gather results, whatever order they come in.

        Args:
            results: of all submissions.
            by_hand: the totals, and comments, of a teacher.
            absent: the learners without a submission.
        """
        given = {
            clean(who): x for (who, of), x in (by_hand or {}).items() if not of
        }
        groups: dict[str, list[Result]] = {clean(x): [] for x in absent}
        for result in map(clean, results):
            groups.setdefault(result.learner, []).append(result)
        files = file_names(groups)
        learners = []
        for name in sorted(groups, key=natural):
            own = sorted(groups[name], key=lambda x: natural(x.submission))
            total, comment = given.get(name, (None, ""))
            learners.append(
                Learner(name, files[name], tuple(own), total, clean(comment))
            )
        return cls(tuple(learners))

    @cached_property
    def results(self) -> list[Result]:
        """All results, in the order of the learners."""
        return [x for learner in self.learners for x in learner.results]

    @property
    def graded(self) -> list[Learner]:
        """The learners with points: of what was graded, or by hand."""
        return [x for x in self.learners if x.has_points]

    @property
    def absent(self) -> list[Learner]:
        """The learners without a submission."""
        return [x for x in self.learners if not x.results]

    @property
    def unreadable(self) -> list[tuple[Learner, Result]]:
        """The submissions that could not be graded, with their learners."""
        return [(x, y) for x in self.learners for y in x.unreadable]

    @property
    def odd(self) -> Iterator[tuple[Learner, Result, list[str]]]:
        """The submissions with something odd, or by hand, and what it is."""
        for learner in self.learners:
            for x in learner.results:
                of_marks = (
                    f"{y.exercise}: {z}" for y in x.marks for z in y.notes
                )
                if notes := [*x.notes, *of_marks]:
                    yield learner, x, notes

    @cached_property
    def chapters(self) -> dict[str, dict[str, float]]:
        """The exercises of each chapter, and the points of each."""
        chapters: dict[str, dict[str, float]] = {}
        for learner in self.learners:
            for name, result in learner.counted.items():
                worth = chapters.setdefault(name, {})
                for x in result.marks:
                    most = max(x.max_points, worth.get(x.exercise, 0))
                    worth[x.exercise] = most
        return {x: chapters[x] for x in sorted(chapters, key=natural)}

    @property
    def exercises(self) -> list[str]:
        """The exercises of all chapters, in order."""
        return [x for worth in self.chapters.values() for x in worth]

    @property
    def max_points(self) -> float:
        """The points of a learner with every exercise of every chapter."""
        return sum(sum(x.values()) for x in self.chapters.values())

    @cached_property
    def hardest(self) -> list[tuple[str, int, int]]:
        """(exercise, passed, graded) of what counts, the hardest first."""
        marks = [
            x for learner in self.learners for x in learner.marks.values()
        ]
        graded = Counter(x.exercise for x in marks)
        passed = Counter(x.exercise for x in marks if x.passed)
        rows = [(name, passed[name], graded[name]) for name in graded]
        return sorted(rows, key=lambda row: (row[1] / row[2], row[0]))

    @cached_property
    def misconceptions(self) -> list[Misconception]:
        """The mistakes that have a name, the most common first."""
        made: dict[str, list[tuple[Learner, Mark]]] = {}
        for learner in self.learners:
            for x in learner.marks.values():
                if x.mistake:
                    made.setdefault(x.mistake, []).append((learner, x))
        rows = []
        for name, cases in made.items():
            counts = Counter(x.exercise for _, x in cases)
            where = dict(sorted(counts.items(), key=lambda x: (-x[1], x[0])))
            why = [
                _why(x) for _, x in cases if x.exercise == next(iter(where))
            ]
            learners = tuple({x.name: x for x, _ in cases}.values())
            rows.append(Misconception(name, why[0], where, learners))
        return sorted(rows, key=lambda x: (-len(x.learners), x.name))

    def bins(self) -> list[tuple[str, int]]:
        """Return how many of the graded learners have how many points."""
        most = self.max_points
        if not most:
            return []
        fine = most <= 20
        last = int(most) if fine else 9
        labels = [str(i) if fine else f"{10 * i} %" for i in range(last + 1)]
        scale = 1 if fine else 10 / most
        sizes = Counter(
            min(int(scale * x.points + 1e-9), last) for x in self.graded
        )
        return [(label, sizes[i]) for i, label in enumerate(labels)]


def _why(mark: Mark) -> str:
    """Return the paragraph below the name of a mark's mistake."""
    lines = mark.details.splitlines()
    is_named = len(lines) > 1 and (mark.mistake or "") in lines[0]
    return lines[1] if is_named else ""


def file_names(names: Collection[str]) -> dict[str, str]:
    """Return a stem for the files of each name, good on any file system.

    Where two names have one stem, or differ by case only, each gets a digest
    (and what looks like a digest, gets one): the stems depend on the set of
    names alone.
    """
    stems = {name: _stem(name) for name in names}
    taken = Counter(x.casefold() for x in stems.values())
    return {
        name: f"{stem}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
        if taken[stem.casefold()] > 1 or _DIGEST.search(stem)
        else stem
        for name, stem in stems.items()
    }


def _stem(name: str) -> str:
    plain = unicodedata.normalize("NFC", name)
    plain = re.sub(r"[^\w.-]+", "-", plain).strip(".-")[:48].rstrip(".-")
    return f"_{plain}" if _RESERVED.fullmatch(plain) else plain or "_"
