"""Gather the results of a batch by learner, chapter, exercise and mistake."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from attn.grading.classroom.lookalikes import Found, find
from attn.grading.classroom.marks import Remark
from attn.grading.classroom.reports.learner import Learner
from attn.grading.classroom.reports.wording import clean, natural
from attn.grading.classroom.result import Mark, Result, hardest

#: Names that Windows keeps for itself, whatever their ending.
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.I)
_DIGEST = re.compile("-[0-9a-f]{16}$", re.I)


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
class Batch:
    """The learners of a batch, in the order of their names."""

    learners: tuple[Learner, ...]

    @classmethod
    def of(
        cls,
        results: Iterable[Result],
        remarks: Mapping[str, Remark] | None = None,
        absent: Iterable[str] = (),
    ) -> Batch:
        """Gather results, whatever order they come in.

        Args:
            results: of all submissions.
            remarks: of the teacher, by learner.
            absent: the learners without a submission.
        """
        said = {clean(k): clean(x) for k, x in (remarks or {}).items()}
        groups: dict[str, list[Result]] = {clean(x): [] for x in absent}
        for result in map(clean, results):
            groups.setdefault(result.learner, []).append(result)
        files = file_names(groups)
        names = sorted(groups, key=natural)
        return cls(
            tuple(
                Learner(
                    name,
                    files[name],
                    tuple(sorted(groups[name], key=_by_submission)),
                    said.get(name, Remark()),
                )
                for name in names
            )
        )

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """All results, in the order of the learners."""
        return tuple(x for learner in self.learners for x in learner.results)

    @property
    def submissions(self) -> tuple[Result, ...]:
        """The results of what was handed in: no marks by hand alone."""
        return tuple(
            x
            for x in self.results
            if x.status == "unreadable"
            or any(m.status != "by hand" for m in x.marks)
            or not x.marks
        )

    @cached_property
    def counted(self) -> tuple[Result, ...]:
        """The results that count, in the order of the learners."""
        return tuple(
            x for learner in self.learners for x in learner.counted.values()
        )

    @cached_property
    def graded(self) -> tuple[Learner, ...]:
        """The learners with points: of what was graded, or by hand."""
        return tuple(x for x in self.learners if x.has_points)

    @property
    def absent(self) -> tuple[Learner, ...]:
        """The learners without a submission."""
        return tuple(x for x in self.learners if not x.results)

    @cached_property
    def unreadable(self) -> tuple[tuple[Learner, Result], ...]:
        """The submissions that could not be graded, with their learners."""
        return tuple((x, r) for x in self.learners for r in x.unreadable)

    @cached_property
    def chapters(self) -> dict[str, dict[str, float]]:
        """The exercises of each chapter, and the points of each."""
        chapters: dict[str, dict[str, float]] = {}
        for learner in self.learners:
            for name, result in learner.counted.items():
                worth = chapters.setdefault(name, {})
                for mark in result.marks:
                    most = max(mark.max_points, worth.get(mark.exercise, 0))
                    worth[mark.exercise] = most
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
        return hardest(self.counted)

    @cached_property
    def misconceptions(self) -> list[Misconception]:
        """The mistakes that have a name, the most common first."""
        made: dict[str, dict[str, Learner]] = {}
        exercises: dict[str, Counter[str]] = {}
        reasons: dict[tuple[str, str], str] = {}
        for learner in self.learners:
            for mark in learner.marks.values():
                if mark.mistake:
                    name, why = mark.mistake, explanation(mark)
                    made.setdefault(name, {})[learner.name] = learner
                    exercises.setdefault(name, Counter())[mark.exercise] += 1
                    reasons.setdefault((name, mark.exercise), why)
        rows = []
        for name, learners in made.items():
            where = dict(sorted(exercises[name].items(), key=_most_first))
            why = reasons[name, next(iter(where))]
            rows.append(
                Misconception(name, why, where, tuple(learners.values()))
            )
        return sorted(rows, key=lambda x: (-len(x.learners), x.name))

    @cached_property
    def lookalikes(self) -> Found:
        """The pairs of learners whose answers look alike."""
        return find(self.learners)

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


def file_names(names: Iterable[str]) -> dict[str, str]:
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


def _by_submission(result: Result) -> tuple[object, ...]:
    return natural(result.submission)


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]
