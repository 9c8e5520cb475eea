"""Make ``class.csv``: a row for each learner, safe to open in Excel."""

from __future__ import annotations

import csv
import io

from attn.grading.classroom.reports.batch import Batch, Learner
from attn.grading.classroom.reports.text import number

#: A cell that begins so is a formula to a spreadsheet, in some languages'
#: keyboards too. Source: OWASP, "CSV Injection".
_FORMULA = tuple("=+-@\t\r＝＋－＠")


def spreadsheet(batch: Batch) -> str:
    """Return the points of each learner, by chapter and by exercise.

    A cell is empty where nothing was handed in. It begins with a byte order
    mark, without which Excel does not read UTF-8.
    """
    file = io.StringIO()
    file.write("\ufeff")
    writer = csv.writer(file)
    head = ["learner", "points", "max_points", *batch.chapters]
    head += [*batch.exercises, "submissions", "unreadable"]
    writer.writerow(map(_safe, head))
    for learner in batch.learners:
        writer.writerow(_row(batch, learner))
    return file.getvalue()


def _row(batch: Batch, learner: Learner) -> list[str | int | float]:
    chapters = [learner.counted.get(x) for x in batch.chapters]
    marks = [learner.marks.get(x) for x in batch.exercises]
    why = [
        f"{x.submission}: {' '.join(x.message.split())}"
        for x in learner.unreadable
    ]
    return [
        _safe(learner.name),
        number(learner.points),
        number(batch.max_points),
        *("" if x is None else number(x.points) for x in chapters),
        *("" if x is None else number(x.points) for x in marks),
        _safe("; ".join(x.submission for x in learner.results)),
        _safe("; ".join(why)),
    ]


def _safe(text: str) -> str:
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
