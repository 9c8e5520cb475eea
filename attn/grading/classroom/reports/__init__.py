"""Report what became of a class: to a teacher, its learners, and machines.

``write`` fills a folder: ``index.html`` for the next lecture, a page for each
learner, ``class.csv``, ``report.json``, Gradescope's files, and the answers
as they were marked. ``terminal.show`` prints the table. Both depend on the
results alone.
"""

from __future__ import annotations

from pathlib import Path

from attn.data import files
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
        The files: those of one learner alone are ``learners/<name>.html``,
        ``gradescope/<name>.json`` and ``code/<exercise>/<name>.py``.
    """
    texts = {
        "report.json": formats.report(class_),
        "class.csv": formats.spreadsheet(class_),
        "index.html": formats.page(class_),
        "roster.csv": roster,
    }
    for x in class_.learners:
        texts[f"learners/{x.file}.html"] = formats.page(x)
        if x.results:
            texts[f"gradescope/{x.file}.json"] = formats.gradescope(x)
        for mark in x.marks.values():
            if not mark.is_open:
                texts[f"code/{mark.exercise}/{x.file}.py"] = mark.code
    if len(class_.learners) == 1:
        texts["results.json"] = formats.gradescope(class_.learners[0])
    written = {out / name: text for name, text in texts.items() if text}
    for path, text in written.items():
        files.write(path, text)
    return [*written]
