"""Grade one submission: read, judge, rehearse; a row whatever happens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

from attn.data.book import root
from attn.exercises import CHAPTERS
from attn.grading.classroom import answers, contents
from attn.grading.classroom.answers import Answers
from attn.grading.classroom.contents import Unreadable
from attn.grading.classroom.result import Mark, Result, Run
from attn.grading.classroom.submissions import Submission

Rehearse = Callable[[str, Mapping[str, str], tuple[Mark, ...], float], Run]


@dataclass(frozen=True)
class Options:
    """Hold the arguments of a batch that change its results.

    Args:
        seed: draws the inputs.
        timeout: seconds for each exercise.
        points: of exercises, in place of the book's.
    """

    seed: int
    timeout: float = 60.0
    points: Mapping[str, float] = field(default_factory=dict)


class Judge(Protocol):
    """Marks the answers of a chapter: ``room.Examiner``."""

    @property
    def isolation(self) -> str:
        """Say in words how answers are kept from the machine."""

    def examine(
        self, key: str, cells: Mapping[str, str], points: Mapping[str, float]
    ) -> Iterable[Mark]:
        """Return the mark of each exercise, in the chapter's order."""


def grade(
    submission: Submission,
    options: Options,
    examiner: Judge,
    rehearse: Rehearse | None = None,
) -> Result:
    """Return the row of a submission; nothing that it holds raises.

    Args:
        submission: what to grade.
        options: of the batch.
        examiner: marks the answers.
        rehearse: runs the chapter with the answers in it;
            ``classroom.stage.run`` by default.
    """
    row = Result(
        submission.name,
        submission.learner,
        seed=options.seed,
        digest=digest(submission, options),
    )
    try:
        found = answers.read(submission)
    except Unreadable as error:
        return replace(row, status="unreadable", message=str(error))
    except Exception as error:
        said = f"the reader failed, which is our fault: {_said(error)}"
        return failed(row, said)
    marks, failure = _marks(found, options, examiner)
    return replace(
        row,
        chapter=CHAPTERS[found.key],
        message=failure,
        marks=marks,
        run=_run(found, marks, options, rehearse),
        notes=found.file_notes,
        isolation=examiner.isolation,
        digest="" if failure else row.digest,  # to be tried again
    )


def failed(row: Result, said: str) -> Result:
    """Return the row of a submission that ended its grader."""
    return replace(row, status="unreadable", message=said, digest="")


def _marks(
    found: Answers, options: Options, examiner: Judge
) -> tuple[tuple[Mark, ...], str]:
    """Return one mark for each exercise, and why the examiner failed."""
    points = answers.points(found.key)
    worth = {name: options.points.get(name, points[name]) for name in points}
    marks: dict[str, Mark] = {}
    failure = ""
    try:
        for mark in examiner.examine(found.key, found.cells, worth):
            marks[mark.exercise] = mark
        if list(marks) != list(worth):
            raise RuntimeError(f"it marked {', '.join(marks) or 'nothing'}")
    except Exception as error:
        failure = f"the examiner failed, which is our fault: {_said(error)}"
    for name in worth:
        mark = marks.get(name) or Mark(name, 0, worth[name], "died", failure)
        notes = mark.notes + found.notes.get(name, ())
        marks[name] = replace(mark, notes=notes)
    return tuple(marks[name] for name in worth), failure


def _run(
    found: Answers,
    marks: tuple[Mark, ...],
    options: Options,
    rehearse: Rehearse | None,
) -> Run:
    if rehearse is None:
        from attn.grading.classroom import stage

        rehearse = stage.run
    seconds = options.timeout * len(marks)
    # What never ended would take the time of all that follows once more.
    late = {x.exercise for x in marks if x.status == "out of time"}
    cells = {k: x for k, x in found.cells.items() if k not in late}
    try:
        return rehearse(found.key, cells, marks, seconds)
    except Exception as error:
        return Run("died", message=f"it could not be run: {_said(error)}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def digest(submission: Submission, options: Options) -> str:
    """Hash all that a result depends on."""
    about = [
        contents.digest(submission.path),
        options.seed,
        options.timeout,
        sorted(options.points.items()),
        book(),
    ]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()


@cache
def book() -> str:
    """Hash the book: the grader, the exercises, the chapters, PyTorch."""
    found = hashlib.sha256(version("torch").encode())
    package = Path(__file__).resolve().parents[2]
    for folder in (package, root() / "notebooks", root() / "solutions"):
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".py", ".md", ".ipynb"):
                found.update(f"\0{path.name}\0".encode())
                found.update(path.read_bytes())
    return found.hexdigest()
