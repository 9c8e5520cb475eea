"""Report what became of a class: to a teacher, its learners, and machines.

``write`` fills a folder: ``index.html`` for the next lecture, a page for each
learner, ``class.csv``, ``report.json``, ``junit.xml``, Gradescope's files.
``table`` is what a terminal shows. Both depend on the results alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from attn.grading.classroom.marks import Remark
from attn.grading.classroom.reports.batch import Batch
from attn.grading.classroom.reports.formats import (
    gradescope,
    junit,
    report,
    spreadsheet,
)
from attn.grading.classroom.reports.pages import (
    class_page,
    learner_page,
    lookalikes_page,
)
from attn.grading.classroom.reports.terminal import table
from attn.grading.classroom.result import Result

__all__ = ["table", "write"]


def write(
    results: Iterable[Result],
    out: Path,
    remarks: Mapping[str, Remark] | None = None,
    absent: Iterable[str] = (),
    roster: Callable[[Batch], bytes] | None = None,
) -> list[Path]:
    """Write every report of a batch.

    The same results give the same bytes, whatever order they come in. A file
    is replaced in one step, so that a reader never sees half of it.

    Args:
        results: of all submissions; there may be none.
        out: the folder; it is made if need be.
        remarks: of the teacher, by learner.
        absent: the learners without a submission.
        roster: fills the points into a platform's table.

    Returns:
        What was written: ``report.json``, ``class.csv``, ``junit.xml``,
        ``gradescope/<name>.json`` and ``learners/<name>.html`` for each
        learner, ``results.json`` if there is one learner only,
        ``index.html``, ``lookalikes.html`` if answers look alike, and
        ``roster.csv`` if there is a roster.
    """
    written = []
    (out / "lookalikes.html").unlink(missing_ok=True)  # of an earlier run
    batch = Batch.of(results, remarks, absent)
    for name, data in _files(batch, roster):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.tmp")
        draft.write_bytes(data)
        os.replace(draft, path)
        written.append(path)
    return written


def _files(
    batch: Batch, roster: Callable[[Batch], bytes] | None
) -> Iterator[tuple[str, bytes]]:
    yield from ((name, text.encode()) for name, text in _texts(batch))
    if roster:
        yield "roster.csv", roster(batch)


def _texts(batch: Batch) -> Iterator[tuple[str, str]]:
    yield "report.json", report(batch)
    yield "class.csv", spreadsheet(batch)
    yield "junit.xml", junit(batch)
    for learner in batch.learners:
        if learner.results:
            yield f"gradescope/{learner.file}.json", gradescope(learner)
        yield f"learners/{learner.file}.html", learner_page(learner)
    if len(batch.learners) == 1:
        yield "results.json", gradescope(batch.learners[0])
    if batch.lookalikes.pairs:
        yield "lookalikes.html", lookalikes_page(batch)
    yield "index.html", class_page(batch)
