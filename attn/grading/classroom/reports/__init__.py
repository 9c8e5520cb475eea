"""Report what became of a class: to a teacher, its learners, and machines.

``write`` fills a folder: ``index.html`` for the next lecture, a page for each
learner, ``class.csv``, ``report.json``, Gradescope's files, and the answers
as they were marked. ``terminal.View`` is what a terminal shows. Both depend on
the results alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attn.grading.classroom import result
from attn.grading.classroom.reports.class_ import Class
from attn.grading.classroom.reports.formats import (
    gradescope,
    report,
    spreadsheet,
)
from attn.grading.classroom.reports.pages import class_page, learner_page
from attn.grading.classroom.reports.wording import is_open


def write(class_: Class, out: Path, roster: str = "") -> list[Path]:
    """Write every report of a class.

    The same results give the same bytes, whatever order they come in. A file
    is replaced in one step, so that a reader never sees half of it.

    Args:
        class_: of all results; there may be none.
        out: the folder; it is made if need be.
        roster: a platform's table with the points in it.

    Returns:
        What was written: ``report.json``, ``class.csv``,
        ``gradescope/<name>.json``, ``learners/<name>.html`` and
        ``code/<exercise>/<name>.py`` for each learner, ``results.json`` if
        there is one learner only, ``index.html``, and ``roster.csv`` if there
        is a roster.
    """
    written = []
    for name, text in _files(class_, roster):
        written.append(out / name)
        result.write(out / name, text)
    return written


def _files(class_: Class, roster: str) -> Iterator[tuple[str, str]]:
    yield "report.json", report(class_)
    yield "class.csv", spreadsheet(class_)
    for learner in class_.learners:
        if learner.results:
            yield f"gradescope/{learner.file}.json", gradescope(learner)
        yield f"learners/{learner.file}.html", learner_page(learner)
        for mark in learner.marks.values():
            if mark.code and not is_open(mark):
                yield f"code/{mark.exercise}/{learner.file}.py", mark.code
    if len(class_.learners) == 1:
        yield "results.json", gradescope(class_.learners[0])
    yield "index.html", class_page(class_)
    if roster:
        yield "roster.csv", roster
