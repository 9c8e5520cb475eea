"""Write a batch for programs: JSON, a spreadsheet, JUnit, Gradescope."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from typing import Any

from attn.grading.classroom.reports.batch import Batch
from attn.grading.classroom.reports.learner import Learner
from attn.grading.classroom.reports.wording import (
    by_hand,
    diagnosis,
    headline,
    number,
    remarks,
    word,
)
from attn.grading.classroom.result import Mark, Result, to_json

#: A cell that begins so is a formula to a spreadsheet, in some languages'
#: keyboards too. Source: OWASP, "CSV Injection".
_FORMULA = tuple("=+-@\t\r＝＋－＠")
#: JUnit's errors ended without a result; its failures gave a wrong one.
_ERRORS = ("out of time", "died")


def report(batch: Batch) -> str:
    """Return ``report.json``: every result, the totals, what was hard."""
    return _json(
        {
            "submissions": len(batch.submissions),
            "unreadable": len(batch.unreadable),
            "points": number(sum(x.points for x in batch.learners)),
            "max_points": number(sum(x.max_points for x in batch.learners)),
            "learners": [
                {
                    "learner": learner.name,
                    "status": learner.status,
                    "points": number(learner.points)
                    if learner.has_points
                    else None,
                    "max_points": number(learner.max_points),
                    "late_days": number(learner.remark.late_days),
                    "by_hand": learner.by_hand,
                    "counted": [
                        x.submission for x in learner.counted.values()
                    ],
                    "replaced": learner.replaced,
                }
                for learner in batch.learners
            ],
            "hardest": [
                {"exercise": name, "passed": passed, "graded": graded}
                for name, passed, graded in batch.hardest
            ],
            "misconceptions": [
                {
                    "mistake": x.name,
                    "learners": [learner.name for learner in x.learners],
                    "exercises": x.exercises,
                }
                for x in batch.misconceptions
            ],
            "lookalikes": [
                {
                    "learners": [x.one.name, x.two.name],
                    "exercises": x.exercises,
                }
                for x in batch.lookalikes.pairs
            ],
            "results": [to_json(x) for x in batch.results],
        }
    )


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


# --- class.csv ---------------------------------------------------------------


def spreadsheet(batch: Batch) -> str:
    """Return ``class.csv``: each learner's points, safe to open in Excel.

    A cell is empty where nothing was handed in. It begins with a byte order
    mark, without which Excel does not read UTF-8.
    """
    file = io.StringIO()
    file.write("\ufeff")
    writer = csv.writer(file)
    head = ["learner", "status", "points", "max_points", *batch.chapters]
    head += [*batch.exercises, "counted", "late", "late_days", "by_hand"]
    head += ["submissions", "unreadable"]
    writer.writerow(map(_safe, head))
    for learner in batch.learners:
        writer.writerow(_row(batch, learner))
    return file.getvalue()


def _row(batch: Batch, learner: Learner) -> list[str | int | float]:
    chapters = [learner.counted.get(x) for x in batch.chapters]
    marks = [learner.marks.get(x) for x in batch.exercises]
    reasons = [
        f"{x.submission}: {' '.join(x.message.split())}"
        for x in learner.unreadable
    ]
    return [
        _safe(learner.name),
        learner.status,
        number(learner.points) if learner.has_points else "",
        number(batch.max_points),
        *("" if x is None else number(x.points) for x in (*chapters, *marks)),
        _safe("; ".join(x.submission for x in learner.counted.values())),
        _safe("; ".join(x.submission for x in learner.results if x.late)),
        number(learner.remark.late_days) or "",
        _safe("; ".join(" ".join(x.split()) for x in learner.by_hand)),
        _safe("; ".join(x.submission for x in learner.results)),
        _safe("; ".join(reasons)),
    ]


def _safe(text: str) -> str:
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


# --- junit.xml ---------------------------------------------------------------


def junit(batch: Batch) -> str:
    """Return ``junit.xml``: a suite for each submission, for a CI server.

    Each exercise is a test case; a submission that could not be graded is a
    suite with one error. Nothing has a time: reports do not depend on the
    clock.
    """
    root = ET.Element("testsuites", name="attn grade")
    for result in batch.results:
        root.append(_suite(result))
    _count(root)
    ET.indent(root, " ")
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _suite(result: Result) -> ET.Element:
    suite = ET.Element("testsuite", name=result.submission)
    _properties(
        suite,
        learner=result.learner,
        chapter=result.chapter or "",
        points=_of(result, result.points),
        max_points=_of(result, result.max_points),
        seed=result.seed,
        isolation=result.isolation,
    )
    chapter = result.chapter or result.submission
    if result.status == "unreadable":
        case = ET.SubElement(
            suite, "testcase", classname=chapter, name="submission"
        )
        message = " ".join(result.message.split())
        error = ET.SubElement(
            case, "error", type="unreadable", message=message
        )
        error.text = result.message
    for mark in result.marks:
        case = ET.SubElement(
            suite, "testcase", classname=chapter, name=mark.exercise
        )
        _case(case, mark)
    _count(suite)
    return suite


def _case(case: ET.Element, mark: Mark) -> None:
    _properties(
        case,
        exercise=mark.exercise,
        points=number(mark.points),
        max_points=number(mark.max_points),
    )
    if not (mark.passed or mark.status == "by hand"):
        kind = "error" if mark.status in _ERRORS else "failure"
        fault = ET.SubElement(
            case, kind, type=mark.status, message=headline(mark)
        )
        fault.text = "\n\n".join(filter(None, [diagnosis(mark), mark.details]))
    if odd := [*mark.notes, *by_hand(mark)]:
        ET.SubElement(case, "system-out").text = "\n".join(odd)


def _of(result: Result, points: float) -> int | float | str:
    return "" if result.status == "unreadable" else number(points)


def _properties(element: ET.Element, **values: object) -> None:
    inside = ET.SubElement(element, "properties")
    for name, value in values.items():
        ET.SubElement(inside, "property", name=name, value=str(value))


def _count(element: ET.Element) -> None:
    """Add the counts that CI servers read from a suite."""
    for name, tag in (
        ("tests", "testcase"),
        ("failures", "failure"),
        ("errors", "error"),
    ):
        element.set(name, str(sum(1 for _ in element.iter(tag))))


# --- Gradescope --------------------------------------------------------------


def gradescope(learner: Learner) -> str:
    """Return the ``results.json`` of a learner that Gradescope reads.

    Every text is plain, so that nothing in it is taken for HTML.

    Source: Gradescope, "Autograder Specifications", output format.
    """
    return _json(
        {
            "score": number(learner.points),
            "output": "\n".join(_remarks(learner)),
            "output_format": "text",
            "test_output_format": "text",
            "test_name_format": "text",
            "visibility": "visible",
            "tests": [_test(x) for x in learner.marks.values()],
        }
    )


def _test(mark: Mark) -> dict[str, Any]:
    notes = [f"note: {x}" for x in (*mark.notes, *by_hand(mark))]
    return {
        "name": mark.exercise,
        "score": number(mark.points),
        "max_score": number(mark.max_points),
        "status": "passed" if mark.passed else "failed",
        "output": "\n".join([word(mark), diagnosis(mark), *notes]),
        "visibility": "visible",
    }


def _remarks(learner: Learner) -> list[str]:
    """Return what belongs to the submission as a whole."""
    lines = learner.said
    counted = list(learner.counted.values())
    for result in learner.results:
        if result.status == "unreadable":
            lines += [f"{result.submission} cannot be read.", result.message]
        elif result not in counted:
            reason = learner.replaced[result.submission]
            lines.append(f"{result.submission} does not count: {reason}.")
        else:
            worth = f"{number(result.points)}/{number(result.max_points)}"
            lines.append(f"{result.submission}: {worth} points")
            lines += [f"note: {x}" for x in remarks(result)]
    return lines + sorted({x.isolation for x in counted if x.isolation})
