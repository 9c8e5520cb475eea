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
        reasons = {}
        for result in self.results:
            counted = self.counted.get(result.chapter or "no chapter", result)
            if result.status == "graded" and counted is not result:
                how = "has as many points or more"
                if counted.attempt > result.attempt:
                    how = "was handed in later"
                name = counted.submission
                reasons[result.submission] = f"{name} {how}, and counts"
        return reasons

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
        lines = []
        if self.total is not None:
            judged = number(sum(x.points for x in self.counted.values()))
            total = f"total: {number(self.total)} points by hand"
            lines.append(f"{total}; the exercises have {judged}")
        return [*lines, self.comment] if self.comment else lines


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
        totals = {
            clean(k[0]): x for k, x in (by_hand or {}).items() if not k[1]
        }
        groups: dict[str, list[Result]] = {clean(x): [] for x in absent}
        for result in map(clean, results):
            groups.setdefault(result.learner, []).append(result)
        files = file_names(groups)
        learners = []
        for name in sorted(groups, key=natural):
            own = sorted(groups[name], key=lambda x: natural(x.submission))
            total, comment = totals.get(name, (None, ""))
            learners.append(
                Learner(name, files[name], tuple(own), total, clean(comment))
            )
        return cls(tuple(learners))

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """All results, in the order of the learners."""
        return tuple(x for learner in self.learners for x in learner.results)

    @cached_property
    def counted(self) -> tuple[Result, ...]:
        """The results that count, in the order of the learners."""
        return tuple(
            x for learner in self.learners for x in learner.counted.values()
        )

    @property
    def graded(self) -> tuple[Learner, ...]:
        """The learners with points: of what was graded, or by hand."""
        return tuple(x for x in self.learners if x.has_points)

    @property
    def absent(self) -> tuple[Learner, ...]:
        """The learners without a submission."""
        return tuple(x for x in self.learners if not x.results)

    @property
    def unreadable(self) -> tuple[tuple[Learner, Result], ...]:
        """The submissions that could not be graded, with their learners."""
        return tuple((x, r) for x in self.learners for r in x.unreadable)

    @property
    def odd(self) -> Iterator[tuple[Learner, Result, list[str]]]:
        """The submissions with something odd, or by hand, and what it is."""
        for learner in self.learners:
            for x in learner.results:
                named = [
                    f"{mark.exercise}: {note}"
                    for mark in x.marks
                    for note in mark.notes
                ]
                if notes := [*x.notes, *named]:
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
        marks = [x for result in self.counted for x in result.marks]
        graded = Counter(x.exercise for x in marks)
        passed = Counter(x.exercise for x in marks if x.passed)
        rows = [(name, passed[name], graded[name]) for name in graded]
        return sorted(rows, key=lambda row: (row[1] / row[2], row[0]))

    @cached_property
    def misconceptions(self) -> list[Misconception]:
        """The mistakes that have a name, the most common first."""
        made: dict[str, list[tuple[Learner, Mark]]] = {}
        for learner in self.learners:
            for mark in learner.marks.values():
                if mark.mistake:
                    made.setdefault(mark.mistake, []).append((learner, mark))
        rows = []
        for name, cases in made.items():
            counts = Counter(mark.exercise for _, mark in cases)
            order = sorted(counts, key=lambda x: (-counts[x], x))
            first = next(x for _, x in cases if x.exercise == order[0])
            learners = tuple({x.name: x for x, _ in cases}.values())
            where = {x: counts[x] for x in order}
            rows.append(
                Misconception(name, explanation(first), where, learners)
            )
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


def explanation(mark: Mark) -> str:
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


def _precedence(result: Result) -> tuple[tuple[int, ...], float]:
    return result.attempt, result.points
