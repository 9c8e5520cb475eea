"""Make ``junit.xml``: a test suite for each submission, for a CI server."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from attn.grading.classroom.reports.batch import Batch
from attn.grading.classroom.reports.marks import diagnosis, headline
from attn.grading.classroom.reports.text import number
from attn.grading.classroom.result import Mark, Result

#: These ended without a result; other answers gave one that is not right.
_ERRORS = ("out of time", "died")


def junit(batch: Batch) -> str:
    """Return the batch as XML: a test case for each exercise.

    A submission that could not be graded is a suite with one error. Nothing
    has a time: reports do not depend on the clock.
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
        points=number(result.points),
        max_points=number(result.max_points),
        seed=result.seed,
        isolation=result.isolation,
    )
    chapter = result.chapter or result.submission
    if result.status == "unreadable":
        case = ET.SubElement(
            suite, "testcase", classname=chapter, name="submission"
        )
        first = " ".join(result.message.split())
        error = ET.SubElement(case, "error", type="unreadable", message=first)
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
    if not mark.passed:
        kind = "error" if mark.status in _ERRORS else "failure"
        fault = ET.SubElement(
            case, kind, type=mark.status, message=headline(mark)
        )
        fault.text = diagnosis(mark)
    if mark.notes:
        ET.SubElement(case, "system-out").text = "\n".join(mark.notes)


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
