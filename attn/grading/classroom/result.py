"""Hold the result of grading a submission: plain data.

Nothing here depends on the clock, on the machine or on the order of the
submissions, so that two runs with one seed write the same reports.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Status = Literal[
    "passed",  # right
    "wrong",  # it ran, and a result differs
    "refused",  # it calls what the task forbids, or the book
    "not written",  # the stub, or nothing that runs
    "missing",  # nothing in the notebook defines it
    "out of time",  # it was stopped by the clock
    "died",  # its process ended, or ran out of memory
]


@dataclass(frozen=True)
class Mark:
    """The result of one exercise.

    Args:
        exercise: its id.
        points: that it earned, all of ``max_points`` or 0; or those that a
            teacher gave.
        max_points: that it is worth.
        status: in a word or two.
        message: the diagnosis, as ``check`` prints it; empty if it passed.
        details: everything that is known, as ``why`` prints it.
        mistake: the name of the mistake, if there is one.
        notes: what is odd about the cell (that there are two with this id),
            and what a teacher gave by hand.
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
    code: str = ""

    @property
    def passed(self) -> bool:
        """True of a right answer."""
        return self.status == "passed"


@dataclass(frozen=True)
class Result:
    """One row: what became of one submission, whatever it held.

    Args:
        submission: its path, relative to what was named; unique in a batch.
        learner: the name in the class's table.
        chapter: ``05_gqa``; None if none could be told.
        status: ``graded``, or ``unreadable`` with a message.
        message: why nothing could be graded.
        marks: of every exercise of the chapter, in order.
        notes: what is odd about the whole file.
        isolation: in words, what kept the answers from the machine.
        seed: draws the inputs; the same seed gives the same result.
        digest: of the submission, of the seed and of the book: a stopped
            batch resumes where the digest is the same.
        ids, attempt: as in ``Submission``.
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

    @property
    def points(self) -> float:
        """The points of all exercises."""
        return sum(x.points for x in self.marks)

    @property
    def max_points(self) -> float:
        """The points that the chapter is worth."""
        return sum(x.max_points for x in self.marks)


def to_json(result: Result) -> dict[str, Any]:
    """Return a result as JSON's own types, with its points."""
    points = result.points, result.max_points
    most = points if result.status == "graded" else (None, None)
    return asdict(result) | dict(
        zip(("points", "max_points"), most, strict=True)
    )


def from_json(data: dict[str, Any]) -> Result:
    """Return the result that ``to_json`` was given."""
    own = {k: v for k, v in data.items() if k not in ("points", "max_points")}
    marks = [Mark(**x | {"notes": tuple(x["notes"])}) for x in data["marks"]]
    tuples = {x: tuple(data[x]) for x in ("notes", "ids", "attempt")}
    return Result(**own | tuples | {"marks": tuple(marks)})


def json_of(data: dict[str, Any]) -> str:
    """Return data as the text of a file."""
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def write(path: Path, text: str) -> None:
    """Write in one step: a crash leaves the old file, or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.tmp")
    draft.write_bytes(text.encode())
    os.replace(draft, path)
