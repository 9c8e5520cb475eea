"""Report what became of a class: to a teacher, its learners, and machines.

``write`` fills a folder: ``index.html`` for the next lecture, a page for each
learner, ``class.csv``, ``report.json``, Gradescope's files, and the answers
as they were marked. ``terminal.show`` prints the table. Both depend on the
results alone.
"""

from __future__ import annotations

from pathlib import Path

from attn.grading.classroom import result
from attn.grading.classroom.reports import formats
from attn.grading.classroom.reports.class_ import Class


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
    files = {
        "report.json": formats.report(class_),
        "class.csv": formats.spreadsheet(class_),
        "index.html": formats.class_page(class_),
        "roster.csv": roster,
    }
    for x in class_.learners:
        files[f"learners/{x.file}.html"] = formats.learner_page(x)
        if x.results:
            files[f"gradescope/{x.file}.json"] = formats.gradescope(x)
        for mark in x.marks.values():
            if not mark.is_open:
                files[f"code/{mark.exercise}/{x.file}.py"] = mark.code
    if len(class_.learners) == 1:
        files["results.json"] = formats.gradescope(class_.learners[0])
    written = {out / name: text for name, text in files.items() if text}
    for path, text in written.items():
        result.write(path, text)
    return [*written]
