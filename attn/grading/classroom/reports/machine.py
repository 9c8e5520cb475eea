"""Make ``report.json``: every result, the totals, what was hard."""

from __future__ import annotations

from typing import Any

from attn.grading.classroom.reports.batch import Batch
from attn.grading.classroom.reports.text import number
from attn.grading.classroom.result import to_json


def report(batch: Batch) -> dict[str, Any]:
    """Return all that is known about a batch, as JSON's own types."""
    return {
        "submissions": len(batch.results),
        "unreadable": len(batch.unreadable),
        "points": number(sum(x.points for x in batch.learners)),
        "max_points": number(sum(x.max_points for x in batch.learners)),
        "learners": [
            {
                "learner": x.name,
                "points": number(x.points),
                "max_points": number(x.max_points),
                "counted": [y.submission for y in x.counted.values()],
            }
            for x in batch.learners
        ],
        "hardest": [
            {"exercise": name, "passed": passed, "graded": graded}
            for name, passed, graded in batch.hardest
        ],
        "misconceptions": [
            {
                "mistake": x.name,
                "learners": [y.name for y in x.learners],
                "exercises": x.exercises,
            }
            for x in batch.misconceptions
        ],
        "results": [to_json(x) for x in batch.results],
    }
