"""Hold the result of grading a submission: plain data, and its words.

Nothing here depends on the clock, on the machine or on the order of the
submissions, so that two runs with one seed write the same reports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from attn.exercises.answers import NOT_STARTED

Status = Literal[
    "passed",  # right
    "wrong",  # it ran, and a result differs
    "refused",  # it calls what the task forbids, or the book
    "not written",  # the stub
    "not finished",  # it still raises a stub's NotImplementedError
    "missing",  # nothing in the notebook defines it
    "out of time",  # it was stopped by the clock
    "died",  # its process ended, or ran out of memory
]
#: What learners read of each.
_SIGNS = {"passed": "✓", "missing": "·"} | dict.fromkeys(
    ("not written", "not finished"), "·"
)
_WORDS = {
    "passed": "right",
    "wrong": "not right yet",
    "refused": "not allowed",
    "not written": NOT_STARTED,
    "missing": "not found",
}
#: What no format may hold or no reader sees: control characters, marks that
#: reverse the direction of a line, halves of characters.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufeff\ufffe\uffff"
)
_WITH_LINES = ("message", "details", "code")
#: A teacher's points, if any, and a comment, by learner and exercise.
ByHand = Mapping[tuple[str, str], tuple[float | None, str]]


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

    @property
    def is_open(self) -> bool:
        """True where there is no answer at all."""
        return self.sign == "·"

    @property
    def sign(self) -> str:
        """✓, ✗, or · for what is not there."""
        return _SIGNS.get(self.status, "✗")

    @property
    def word(self) -> str:
        """The status as a learner reads it."""
        return _WORDS.get(self.status, self.status)

    @property
    def headline(self) -> str:
        """The diagnosis in a line: the mistake's name if there is one."""
        lines = [x.strip() for x in self.message.strip().splitlines()]
        wrong = [x for x in lines if x and not x.startswith("right so far: ")]
        first = self.mistake or next(iter([*wrong, *lines, self.word]))
        plain = ("passed", "wrong", "not written", "not finished")
        return first if self.status in plain else f"{self.status}: {first}"


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


def from_json(data: dict[str, Any]) -> Result:
    """Return the result whose ``asdict`` was written as JSON."""
    marks = [Mark(**x | {"notes": tuple(x["notes"])}) for x in data["marks"]]
    tuples = {x: tuple(data[x]) for x in ("notes", "ids", "attempt")}
    return Result(**data | tuples | {"marks": tuple(marks)})


def clean(value: Any, name: str = "") -> Any:
    """Return a result, or a text of one, that any format can hold.

    A hidden character becomes its escape, ``\\x1b``. Only a ``message``,
    its ``details`` and ``code`` have lines and tabs.
    """
    if isinstance(value, str):
        hidden = f"[\t\n{_HIDDEN}]"
        if name in _WITH_LINES:
            hidden = f"[{_HIDDEN}]"
            value = value.replace("\r\n", "\n").replace("\r", "\n")
        return re.sub(
            hidden, lambda x: x[0].encode("unicode_escape").decode(), value
        )
    if isinstance(value, tuple):
        return tuple(map(clean, value))
    if isinstance(value, Mark | Result):
        texts = {k: clean(x, k) for k, x in vars(value).items()}
        return replace(value, **texts)
    return value


def number(points: float) -> int | float:
    """Return points as they are read: 3, not 3.0; 0.3, not 0.1 + 0.2."""
    rounded = round(points, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def json_of(data: dict[str, Any]) -> str:
    """Return data as the text of a file."""
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
