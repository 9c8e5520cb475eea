"""Run ``attn check FILE``: the verdicts of a file, and nothing is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from attn.exercises.wrapping import wrapped
from attn.grading.classroom.grade import Options, examiner_of, grade
from attn.grading.classroom.submissions import Submission
from attn.grading.sandbox import isolation


def check(path: Path, ids: Sequence[str] = ()) -> int:
    """Print the verdict of each exercise in a file; store nothing.

    A right answer is a line, a wrong one a few; the last line is the total.

    Args:
        path: of a notebook or a Python file, of one chapter.
        ids: of the exercises to print; all of the chapter's when empty.

    Returns:
        The exit status: 0 if all that is printed is right, else 1.

    Raises:
        ValueError: the file holds no exercise, or not one of ``ids``.
    """
    # The inputs of a notebook's ``check``; the code is one's own.
    kind = "none" if isolation.complaint() else "bubblewrap"
    options = Options(seed=0, isolation=kind)
    with examiner_of(options) as examiner:
        from attn.exercises.spec import find  # imports PyTorch: not before

        names = [find(x).id for x in ids]
        row = grade(Submission(path, path.name, path.stem), options, examiner)
    if row.status == "unreadable":
        raise ValueError(f"{path}: {row.message}")
    known = [x.exercise for x in row.marks]
    if not {*names} <= {*known}:
        raise ValueError(
            f"ids must be of the chapter in {path}: {', '.join(known)}; "
            f"got {', '.join(names)}"
        )
    marks = [x for x in row.marks if not ids or x.exercise in names]
    for x in marks:
        first = f"{x.sign} {x.exercise}  {x.points}/{x.max_points} points"
        print(first, *wrapped(x.message, "  "), sep="\n")
    total = replace(row, marks=tuple(marks))
    print(f"total  {total.points}/{total.max_points} points")
    return int(not all(x.passed for x in marks))
