"""Say what the chapter's run with a learner's answers showed."""

from __future__ import annotations

from attn.grading.classroom.reports.text import plural
from attn.grading.classroom.result import Run


def seen(run: Run) -> list[str]:
    """Return lines about a run: it is information, and has no points."""
    if run.status == "not run":
        said = "The chapter was not run with these answers."
    elif run.status == "ran":
        cells = plural(run.cells, "cell")
        said = f"The whole chapter ran with these answers: {cells}, "
        said += f"{run.failed} failed" if run.failed else "none failed"
        said += ". This is information: the run has no points."
    else:
        why = {"died": "its process ended", "out of time": "time was up"}
        cells = plural(run.cells, "cell")
        said = f"The chapter ran up to {cells}, and {why[run.status]}."
    return [said, *run.message.splitlines()]
