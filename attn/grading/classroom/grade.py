"""Grade one submission: read, judge; a row whatever happens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from attn.data.book import root
from attn.exercises import CHAPTERS
from attn.grading.classroom import plan, reading
from attn.grading.classroom.reading import Unreadable
from attn.grading.classroom.result import Mark, Result
from attn.grading.classroom.submissions import Submission
from attn.grading.sandbox.isolation import KINDS, neutral
from attn.grading.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from attn.grading.classroom.examiner import Examiner


@dataclass(frozen=True)
class Options:
    """Hold the arguments of a batch that change its results.

    Args:
        seed: draws the inputs.
        timeout: seconds for each exercise.
        points: of exercises, in place of the book's.
        isolation: of answers from the machine: ``bubblewrap`` or ``none``.
    """

    seed: int
    timeout: float = 60.0
    points: Mapping[str, float] = field(default_factory=dict)
    isolation: str = "bubblewrap"


def examiner_of(options: Options) -> Examiner:
    """Start an examiner and its sandbox: both import PyTorch, side by side."""
    sandbox = Sandbox(options.isolation)
    from attn.grading.classroom.examiner import Examiner  # not before

    about = options.seed, options.timeout, options.isolation
    return Examiner(*about, sandbox=sandbox)


def grade(
    submission: Submission, options: Options, examiner: Examiner
) -> Result:
    """Return the row of a submission; nothing that it holds raises."""
    row = empty_row(submission, options)
    row = replace(row, digest=digest(submission, options))
    try:
        found = plan.read(submission)
    except Unreadable as error:
        return replace(row, status="unreadable", message=str(error))
    except Exception as error:
        return failed(row, _our_fault("reader", error))
    points = plan.points(found.key)
    worth = {x: options.points.get(x, points[x]) for x in points}
    row = replace(row, chapter=CHAPTERS[found.key], notes=found.file_notes)
    row = replace(row, isolation=KINDS[options.isolation])
    try:
        return replace(row, marks=tuple(examiner.examine(found, worth)))
    except Exception as error:
        failure = _our_fault("examiner", error)
        died = tuple(Mark(x, 0, worth[x], "died", failure) for x in worth)
        # Without a digest it is tried again.
        return replace(row, message=failure, marks=died, digest="")


def empty_row(submission: Submission, options: Options) -> Result:
    """Return the row of a submission without what it holds."""
    row = Result(submission.name, submission.learner, seed=options.seed)
    return replace(row, ids=submission.ids, attempt=submission.attempt)


def failed(row: Result, message: str) -> Result:
    """Return the row of a submission that ended its grader."""
    return replace(row, status="unreadable", message=message, digest="")


def _our_fault(part: str, error: Exception) -> str:
    kind = type(error).__name__
    return neutral(f"the {part} failed, which is our fault: {kind}: {error}")


def digest(submission: Submission, options: Options) -> str:
    """Hash all that a result depends on."""
    try:
        data = reading.load(submission.path)
    except Unreadable as error:
        data = str(error).encode()
    about = submission.learner, submission.ids, submission.attempt
    inputs = json.dumps([about, asdict(options), book()], sort_keys=True)
    return hashlib.sha256(data + inputs.encode()).hexdigest()


@cache
def book() -> str:
    """Hash the book: the grader, the exercises, the chapters, PyTorch."""
    total = hashlib.sha256(version("torch").encode())
    package = Path(__file__).resolve().parents[2]
    for folder in (package, root() / "notebooks", root() / "solutions"):
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".py", ".md", ".ipynb"):
                name = f"\0{path.name}\0".encode()
                total.update(name + path.read_bytes())
    return total.hexdigest()
