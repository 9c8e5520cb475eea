"""Write the reports of a batch into a folder, each in one step."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from attn.grading.classroom.reports.batch import Batch
from attn.grading.classroom.reports.gradescope import gradescope
from attn.grading.classroom.reports.junit import junit
from attn.grading.classroom.reports.machine import report
from attn.grading.classroom.reports.pages import class_page, learner_page
from attn.grading.classroom.reports.spreadsheet import spreadsheet
from attn.grading.classroom.result import Result


def write(results: Iterable[Result], out: Path) -> list[Path]:
    """Write every report of a batch.

    The same results give the same bytes, whatever order they come in. A file
    is replaced in one step, so that a reader never sees half of it.

    Args:
        results: of all submissions; there may be none.
        out: the folder; it is made if need be.

    Returns:
        What was written: ``report.json``, ``class.csv``, ``junit.xml``,
        ``gradescope/<name>.json`` and ``learners/<name>.html`` for each
        learner, ``results.json`` if there is one learner only, and
        ``index.html``.
    """
    written = []
    for name, text in _texts(Batch.of(results)):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.tmp")
        draft.write_bytes(text.encode())
        os.replace(draft, path)
        written.append(path)
    return written


def _texts(batch: Batch) -> Iterator[tuple[str, str]]:
    yield "report.json", _json(report(batch))
    yield "class.csv", spreadsheet(batch)
    yield "junit.xml", junit(batch)
    for learner in batch.learners:
        yield f"gradescope/{learner.file}.json", _json(gradescope(learner))
        yield f"learners/{learner.file}.html", learner_page(learner)
    if len(batch.learners) == 1:
        yield "results.json", _json(gradescope(batch.learners[0]))
    yield "index.html", class_page(batch)


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
