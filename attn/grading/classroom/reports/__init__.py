"""Report what became of a class: to a teacher, its learners, and machines.

``write`` fills a folder: ``index.html`` for the next lecture, a page for each
learner, ``class.csv``, ``report.json``, Gradescope's files, and the answers
as they were marked. ``terminal.show`` prints the table. Both depend on the
results alone. A page loads nothing, runs no script, and its own policy forbids
both. Every text from outside is escaped.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment
from markupsafe import Markup, escape

from attn.data import files
from attn.exercises.markdown import as_html, pages
from attn.grading.classroom import tables
from attn.grading.classroom.reports.class_ import Class, Learner
from attn.grading.classroom.result import Mark, json_of, number

#: A cell that begins so is a formula to a spreadsheet, in some languages'
#: keyboards too. Source: OWASP, "CSV Injection".
_FORMULA = tuple("=+-@\t\r＝＋－＠")
#: Words with which a diagnosis begins, and no names of functions.
_PLAIN = re.compile("(in|it|not|right|the|there|this|what|wrong) ")


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
        "report.json": report(class_),
        "class.csv": spreadsheet(class_),
        "index.html": page(class_),
        "roster.csv": roster,
    }
    for x in class_.learners:
        texts[f"learners/{x.file}.html"] = page(x)
        if x.results:
            texts[f"gradescope/{x.file}.json"] = gradescope(x)
        for mark in x.marks.values():
            if not mark.is_open:
                texts[f"code/{mark.exercise}/{x.file}.py"] = mark.code
    if len(class_.learners) == 1:
        texts["results.json"] = gradescope(class_.learners[0])
    written = {out / name: text for name, text in texts.items() if text}
    for path, text in written.items():
        files.write(path, text)
    return [*written]


def report(class_: Class) -> str:
    """Return ``report.json``: every result, the totals, what was hard."""
    learners, results = class_.learners, class_.results
    return json_of(
        {
            "submissions": len(results),
            "unreadable": len(class_.unreadable),
            "points": number(sum(x.points for x in learners)),
            "max_points": number(sum(x.max_points for x in learners)),
            "learners": [
                {
                    "learner": x.name,
                    "status": x.status,
                    "points": number(x.points) if x.has_points else None,
                    "max_points": number(x.max_points),
                    "by_hand": x.by_hand,
                    "counted": [y.submission for y in x.counted.values()],
                    "replaced": x.replaced,
                }
                for x in learners
            ],
            "hardest": class_.hardest,
            "misconceptions": [
                x | {"learners": [y.name for y in x["learners"]]}
                for x in class_.misconceptions
            ],
            "results": [
                asdict(x) | {"points": x.points if x.marks else None}
                for x in results
            ],
        }
    )


def spreadsheet(class_: Class) -> str:
    """Return ``class.csv``: each learner's points, safe to open in Excel.

    A cell is empty where nothing was handed in. It begins with a byte order
    mark, without which Excel does not read UTF-8.
    """
    chapters, exercises = class_.chapters, class_.exercises
    head = ["learner", "status", "points", "max_points", *chapters, *exercises]
    rows: list[list[Any]] = [
        [*head, "counted", "by_hand", "submissions", "unreadable"]
    ]
    for learner in class_.learners:
        counted, marks = learner.counted, learner.marks
        scored = *map(counted.get, chapters), *map(marks.get, exercises)
        odd = [x for x in learner.results if x.status == "unreadable"]
        lists = (
            [x.submission for x in counted.values()],
            learner.by_hand,
            [x.submission for x in learner.results],
            [f"{x.submission}: {x.message}" for x in odd],
        )
        cells = [
            learner.name,
            learner.status,
            number(learner.points) if learner.has_points else "",
            number(class_.max_points),
            *("" if x is None else number(x.points) for x in scored),
            *map("; ".join, lists),
        ]
        rows.append(cells)
    return "\ufeff" + tables.text(map(_safe, cells) for cells in rows)


def _safe(cell: str | float) -> str | float:
    """Return a cell in one line that no spreadsheet computes."""
    if not isinstance(cell, str):
        return cell
    text = cell.replace("\n", " ")
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def gradescope(learner: Learner) -> str:
    """Return the ``results.json`` of a learner that Gradescope reads.

    Every text is plain, so that nothing in it is taken for HTML.

    Source: Gradescope, "Autograder Specifications", output format.
    """
    kinds = ("output_format", "test_output_format", "test_name_format")
    return json_of(
        {
            "score": number(learner.points),
            "output": "\n".join(_remarks(learner)),
            **dict.fromkeys(kinds, "text"),
            "visibility": "visible",
            "tests": [_test(x) for x in learner.marks.values()],
        }
    )


def _test(mark: Mark) -> dict[str, Any]:
    notes = [f"note: {x}" for x in mark.notes]
    return {
        "name": mark.exercise,
        "score": number(mark.points),
        "max_score": number(mark.max_points),
        "status": "passed" if mark.passed else "failed",
        "output": "\n".join([mark.word, mark.message, *notes]),
        "visibility": "visible",
    }


def _remarks(learner: Learner) -> list[str]:
    """Return what belongs to the submission as a whole."""
    lines = [*learner.by_hand]
    for x in learner.results:
        if x.status == "unreadable":
            lines += [f"{x.submission} cannot be read.", x.message]
        elif reason := learner.replaced.get(x.submission):
            lines.append(f"{x.submission} does not count: {reason}.")
        else:
            worth = f"{number(x.points)}/{number(x.max_points)}"
            lines.append(f"{x.submission}: {worth} points")
            lines += [f"note: {note}" for note in x.notes]
    counted = learner.counted.values()
    return lines + sorted({x.isolation for x in counted if x.isolation})


def page(about: Class | Learner) -> str:
    """Return a page: a class's, or a learner's with nothing about others."""
    name = "class" if isinstance(about, Class) else "learner"
    template = _environment().get_template(f"{name}.html")
    return template.render(about=about, results=about.results)


@cache
def _environment() -> Environment:
    environment = pages(Path(__file__).parent / "templates")
    own = (breakable, number, plural, prose, share)
    others = (quote, statistics.median)
    environment.filters |= {x.__name__: x for x in (*own, *others)}
    return environment


def prose(text: str) -> Markup:
    """Return a sentence as HTML, with a capital unless a name is first."""
    if _PLAIN.match(text):
        text = text[0].upper() + text[1:]
    return Markup(as_html(text))


def breakable(name: str) -> Markup:
    """Return a name that may be broken behind its underscores."""
    return Markup(re.sub(r"(?<=[_-])(?=\w)", "<wbr>", str(escape(name))))


def share(part: float, whole: float) -> float:
    """Return a share in percent; of nothing, 0."""
    return 100 * part / whole if whole else 0.0


def plural(count: int, noun: str) -> str:
    """Return ``1 learner``, ``2 learners``."""
    return f"{count} {noun}" + ("s" if count != 1 else "")
