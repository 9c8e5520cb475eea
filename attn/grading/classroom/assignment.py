"""Make an assignment of chapters: the teacher's version, and the points."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat

from attn.exercises import CHAPTERS, sources
from attn.exercises.cells import exercise_id
from attn.grading.classroom import plan
from attn.publishing import myst_to_markdown, notebooks

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
_NUMBER = r"\d+\.?\d*|\.\d+"


def write(folder: Path, chapters: Sequence[str] = ()) -> Iterator[Path]:
    """Write ``folder/05_gqa/05_gqa.ipynb`` of each chapter; yield the path.

    It is a learner's copy with the solutions in it, each between the marks
    at which nbgrader cuts. ``nbgrader generate_assignment`` turns it into
    the learner's copy again.

    Args:
        folder: a course's ``source/``; made when it does not exist.
        chapters: names such as ``05_gqa``; all by default.

    Raises:
        ValueError: there is no such chapter.
        FileExistsError: the file exists; it is left as it is.
    """
    known = CHAPTERS.values()
    if unknown := [name for name in chapters if name not in known]:
        raise ValueError(
            f"chapter must be one of {', '.join(known)}; got {unknown[0]}"
        )
    for path in notebooks.pristine():
        if path.stem not in (chapters or known):
            continue
        target = folder / path.stem / path.name
        if target.exists():
            raise FileExistsError(
                f"{target} exists and is left as it is: name another folder"
            )
        copy = myst_to_markdown.copy_of(notebooks.read(path), set_up=False)
        for cell in copy["cells"]:
            if exercise := exercise_id(cell):
                cell["source"] = sources.marked(exercise, BEGIN, END)
        target.parent.mkdir(parents=True, exist_ok=True)
        notebooks.write(nbformat.from_dict(copy), target)
        yield target


def read_points(path: Path) -> dict[str, float]:
    """Return a teacher's points, which take the place of the book's.

    Args:
        path: JSON, ``{"gqa-repeat_kv": 5, …}``, or CSV with an exercise and
            its points on each line, with or without a header.

    Raises:
        ValueError: the file does not exist or is of neither kind; it names
            an exercise that the book does not have, or one twice; a number
            of points is negative, not finite, or none.
    """
    rows: list[Sequence[Any]] = []
    try:
        text = path.read_text("utf-8-sig")
        if text.lstrip().startswith("{"):
            json.loads(text, object_pairs_hook=rows.extend)
        else:
            rows += filter(any, csv.reader(text.split("\n")))
            if rows and "-" not in rows[0][0]:
                del rows[0]  # a header
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise ValueError(
            f"{path} must be JSON or CSV in a text file; {error}"
        ) from None
    points: dict[str, float] = {}
    known = {name for key in CHAPTERS for name in plan.points(key)}
    for row in rows:
        name, *values = (str(x).strip() for x in row)  # True is no number
        if name not in known:
            raise ValueError(
                f"{path} must name exercises of the book; got {name!r}. One "
                f"chapter's are {', '.join(plan.points('gqa'))}"
            )
        if name in points:
            raise ValueError(f"{path} must name {name} once; got it twice")
        if not (len(values) == 1 and re.fullmatch(_NUMBER, values[0])):
            raise ValueError(
                f"{path} must have an exercise and its points, 0 or more, on "
                f"each line; got {name}, {', '.join(values)}"
            )
        number = float(values[0])
        points[name] = int(number) if number.is_integer() else number
    if not points:
        raise ValueError(f"{path} must name at least one exercise; got none")
    return points
