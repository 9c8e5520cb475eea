"""Read what a teacher gives by hand: points and comments, in ``marks.csv``.

A row without an exercise gives the total; of two alike the last counts::

    ana,gqa-repeat_kv,1.5,"right idea, wrong axis"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from attn.grading.classroom import tables
from attn.grading.classroom.result import Mark, Result

NAME, HEAD = "marks.csv", "learner,exercise,points,comment"
#: Points, if there are any, and a comment, by learner and exercise.
ByHand = Mapping[tuple[str, str], tuple[float | None, str]]


def read(path: Path, people: Mapping[str, Sequence[str]]) -> ByHand:
    """Return what a teacher wrote, by learner and exercise.

    Raises:
        ValueError: the file is no CSV, or a row is wrong.
    """
    has_rows = path.exists() and path.stat().st_size
    table = tables.read(path)[0] if has_rows else []
    by_hand: dict[tuple[str, str], tuple[float | None, str]] = {}
    for number, row in enumerate(table, 1):
        cells = [x.strip() for x in row]
        if not any(cells) or (number == 1 and cells == HEAD.split(",")):
            continue
        name, exercise, points, comment = [*cells, *4 * [""]][:4]
        named = [x for x, ids in people.items() if name in (x, *ids)]
        is_number = re.fullmatch(r"(\d+([.,]\d*)?)?", points)
        if not (name and len(named) == 1 and is_number and len(cells) == 4):
            raise ValueError(
                f"{path}, row {number} must be {HEAD}, of one learner "
                f"({', '.join(named or [*people][:3])}, …) or an id, with "
                f"points from 0; got {', '.join(cells)}"
            )
        value = float(points.replace(",", ".")) if points else None
        by_hand[named[0], exercise] = value, comment
    return by_hand


def applied(results: Iterable[Result], by_hand: ByHand) -> list[Result]:
    """Return results with the points and the comments of exercises."""
    return [
        replace(
            x, marks=tuple(_changed(x.learner, y, by_hand) for y in x.marks)
        )
        for x in results
    ]


def _changed(learner: str, mark: Mark, by_hand: ByHand) -> Mark:
    points, comment = by_hand.get((learner, mark.exercise), (None, ""))
    if points is not None:
        comment = f"it was judged as {mark.points}. {comment}".strip()
        mark = replace(mark, points=points)
    note = (f"by hand: {comment}",) if comment else ()
    return replace(mark, notes=mark.notes + note)
