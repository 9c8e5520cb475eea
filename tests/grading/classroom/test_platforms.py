"""What platforms and their users do to a solved chapter costs no points."""

import pytest

from attn.grading.classroom import pools
from attn.grading.classroom.submissions import find
from tests.grading.classroom import fakes
from tests.grading.classroom.platforms import SUBMISSIONS, place
from tests.marks import exhaustive_but

#: The rest is in `make test-all`.
PARTS = (
    "all in one cell", "left below", "every cell twice", "ottered",
    "without metadata", "powershell", "nbconvert",
)  # fmt: skip
QUICK = [x for x in SUBMISSIONS if any(part in x for part in PARTS)]


@pytest.mark.parametrize("title", exhaustive_but(QUICK, SUBMISSIONS))
def test_a_submission_gets_its_points(title, tmp_path):
    place(title, tmp_path / "learner")
    found = {}
    for x in find([tmp_path]):
        marks = pools.work(x, fakes.OPTIONS).marks
        found[x.path.name] = {mark.exercise for mark in marks if mark.passed}
    assert found == SUBMISSIONS[title][1]


def test_there_are_as_many_as_were_found():
    assert len(SUBMISSIONS) == 27
