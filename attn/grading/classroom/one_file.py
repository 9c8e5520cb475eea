"""Run ``attn check``: judge the answers in a file, as ``check`` prints it.

Nothing is stored: progress is what a learner's notebooks do.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from attn.exercises.spec import find
from attn.grading.checks.show import wrapped
from attn.grading.classroom import plan
from attn.grading.classroom.contents import Unreadable
from attn.grading.classroom.examiner import Examiner
from attn.grading.classroom.result import Mark
from attn.grading.classroom.submissions import Submission

_SEED = 0  # the inputs are those of ``check`` in a notebook


def check(path: Path, ids: Sequence[str] = ()) -> int:
    """Print the verdict of each exercise in a file.

    A right answer is a line on stdout, a wrong one a few lines on stderr.

    Args:
        path: of a notebook or a Python file, of one chapter.
        ids: of the exercises to print; all of the chapter's when empty.

    Returns:
        The exit status: 0 if all that is printed is right, else 1.

    Raises:
        ValueError: the file holds no exercise, or not one of ``ids``.
    """
    try:
        found = plan.read(Submission(path, path.name, path.stem))
    except Unreadable as error:
        raise ValueError(f"{path}: {error}") from None
    worth = plan.points(found.key)
    for name in ids:
        if find(name).id not in worth:
            raise ValueError(
                f"ids must be of the chapter in {path}: {', '.join(worth)}; "
                f"got {name}"
            )
    status = 0
    with Examiner(_SEED) as examiner:
        for mark in examiner.examine(found, worth):
            if not ids or mark.exercise in ids:
                _show(mark)
                status |= not mark.passed
    return status


def _show(mark: Mark) -> None:
    sign = "✓" if mark.passed else "✗"
    first = f"{sign} {mark.exercise}  {mark.points}/{mark.max_points} points"
    print(
        "\n".join([first, *wrapped(mark.message, "  ")]),
        file=sys.stdout if mark.passed else sys.stderr,
        flush=True,
    )
