"""Hold the result of grading a submission: plain data.

Nothing here depends on the clock, on the machine or on the order of the
submissions, so that two runs with one seed write the same reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Status = Literal[
    "passed",  # right
    "wrong",  # it ran, and a result differs
    "refused",  # it calls what the task forbids, or reaches outside
    "not written",  # the stub, or nothing that runs
    "missing",  # no cell has this id
    "out of time",  # it was stopped by the clock
    "died",  # its process ended, or ran out of memory
    "by hand",  # nothing was judged: a teacher gave the points
]


@dataclass(frozen=True)
class Mark:
    """The result of one exercise.

    Args:
        exercise: its id.
        points: that it earned: all of ``max_points``, or 0, or a part where
            the teacher allows it; or those that a teacher gave.
        max_points: that it is worth.
        status: in a word or two.
        message: the diagnosis, as ``check`` prints it; empty if it passed.
        details: everything that is known, as ``why`` prints it.
        mistake: the name of the mistake, if there is one.
        notes: what is odd about the cell: that there are two
            with this id, that its magics were left out.
        judged: the points that it earned, where a teacher gave others.
        comments: of the teacher.
        code: the text that was marked.
    """

    exercise: str
    points: float
    max_points: float
    status: Status
    message: str = ""
    details: str = ""
    mistake: str | None = None
    notes: tuple[str, ...] = ()
    judged: float | None = None
    comments: tuple[str, ...] = ()
    code: str = ""

    @property
    def passed(self) -> bool:
        """True of a right answer."""
        return self.status == "passed"

    def with_a_part(self, right: int, conditions: int) -> Mark:
        """Give a wrong answer points for the conditions in which it is right.

        An answer that is not allowed, or not there, has none.
        """
        is_an_answer = self.status in ("wrong", "out of time", "died")
        if not (conditions and is_an_answer):
            return self
        points = round(self.max_points * right / conditions, 2)
        note = f"partial points: right in {right} of {conditions} conditions"
        return replace(self, points=points, notes=(*self.notes, note))


@dataclass(frozen=True)
class Result:
    """One row: what became of one submission, whatever it held.

    Args:
        submission: its path, relative to what was named; unique in a batch.
        learner: the name in the class's table.
        ids, attempt, late, partners: as in ``Submission``.
        chapter: ``05_gqa``; None if none could be told.
        status: ``graded``, or ``unreadable`` with a message.
        message: why nothing could be graded.
        marks: of every exercise of the chapter, in order.
        notes: what is odd about the whole file.
        isolation: in words, what kept the answers from the machine.
        seed: draws the inputs; the same seed gives the same result.
        digest: of the submission, of the seed and of the book: a stopped
            batch resumes where the digest is the same.
    """

    submission: str
    learner: str
    chapter: str | None = None
    status: Literal["graded", "unreadable"] = "graded"
    message: str = ""
    marks: tuple[Mark, ...] = ()
    notes: tuple[str, ...] = ()
    isolation: str = ""
    seed: int = 0
    digest: str = ""
    ids: tuple[str, ...] = ()
    attempt: tuple[int, ...] = ()
    late: bool = False
    partners: tuple[str, ...] = ()

    @property
    def points(self) -> float:
        """The points of all exercises."""
        return sum(x.points for x in self.marks)

    @property
    def max_points(self) -> float:
        """The points that the chapter is worth."""
        return sum(x.max_points for x in self.marks)


def to_json(result: Result) -> dict[str, Any]:
    """Return a result as JSON's own types."""
    is_graded = result.status == "graded"
    total = {
        "points": result.points if is_graded else None,
        "max_points": result.max_points if is_graded else None,
    }
    lists = {x: list(getattr(result, x)) for x in _TUPLES}
    marks = [
        x | {"comments": list(x["comments"])} for x in asdict(result)["marks"]
    ]
    return asdict(result) | {"marks": marks} | lists | total


def from_json(data: dict[str, Any]) -> Result:
    """Return the result that ``to_json`` was given."""
    marks = tuple(
        Mark(**x | {k: tuple(x[k]) for k in ("notes", "comments")})
        for x in data["marks"]
    )
    own = {k: v for k, v in data.items() if k not in ("points", "max_points")}
    tuples = {x: tuple(data[x]) for x in ("notes", *_TUPLES)}
    return Result(**own | {"marks": marks} | tuples)


_TUPLES = ("ids", "attempt", "partners")


def hardest(results: Iterable[Result]) -> list[tuple[str, int, int]]:
    """Return (exercise, passed, graded) of each, the hardest first."""
    counts: dict[str, list[int]] = {}
    for result in results:
        for mark in result.marks:
            if mark.status == "by hand":
                continue
            count = counts.setdefault(mark.exercise, [0, 0])
            count[0] += mark.passed
            count[1] += 1
    rows = [
        (name, passed, graded) for name, (passed, graded) in counts.items()
    ]
    return sorted(rows, key=lambda row: (row[1] / row[2], row[0]))
