"""Make the ``results.json`` that Gradescope reads, for each learner."""

from __future__ import annotations

from typing import Any

from attn.grading.classroom.reports.batch import Learner
from attn.grading.classroom.reports.marks import diagnosis, word
from attn.grading.classroom.reports.run import seen
from attn.grading.classroom.reports.text import number
from attn.grading.classroom.result import Mark


def gradescope(learner: Learner) -> dict[str, Any]:
    """Return a learner's result in Gradescope's output format.

    Every text is plain, so that nothing in it is taken for HTML.

    Source: Gradescope, "Autograder Specifications", output format.
    """
    return {
        "score": number(learner.points),
        "output": "\n".join(_lines(learner)),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "tests": [_test(x) for x in learner.marks.values()],
    }


def _test(mark: Mark) -> dict[str, Any]:
    notes = [f"note: {x}" for x in mark.notes]
    return {
        "name": mark.exercise,
        "score": number(mark.points),
        "max_score": number(mark.max_points),
        "status": "passed" if mark.passed else "failed",
        "output": "\n".join([word(mark), diagnosis(mark), *notes]),
        "visibility": "visible",
    }


def _lines(learner: Learner) -> list[str]:
    """Return what belongs to the submission as a whole."""
    lines = []
    counted = list(learner.counted.values())
    for result in learner.results:
        if result.status == "unreadable":
            lines += [f"{result.submission} cannot be read.", result.message]
        elif result not in counted:
            lines.append(
                f"{result.submission} does not count: another submission of "
                f"{result.chapter} has as many points or more."
            )
        else:
            worth = f"{number(result.points)}/{number(result.max_points)}"
            lines.append(f"{result.submission}: {worth} points")
            lines += [f"note: {x}" for x in result.notes]
            lines += seen(result.run)
    return lines + sorted({x.isolation for x in counted if x.isolation})
