"""What platforms and their users do to a solved chapter costs no points."""

import pytest

from attn.grading.classroom import pools
from attn.grading.classroom.submissions import find
from tests.grading.classroom import fakes
from tests.grading.classroom.platforms import SUBMISSIONS

#: The rest is in `make test-all`.
QUICK = "all in one cell", "a class split", "ottered", "mounts", "databricks"


@pytest.mark.parametrize(
    "submission",
    [
        pytest.param(
            x,
            marks=()
            if any(part in str(x) for part in QUICK)
            else pytest.mark.exhaustive,
            id=str(x),
        )
        for x in SUBMISSIONS
    ],
)
def test_a_submission_gets_its_points(submission, tmp_path):
    submission.place(tmp_path / "learner")
    results = [pools.work(x, fakes.OPTIONS) for x in find([tmp_path])]
    marks = {
        x.submission.rpartition("/")[2]: {
            mark.exercise for mark in x.marks if mark.passed
        }
        for x in results
    }
    assert marks == submission.expected()
