"""An honest notebook gets its points, whatever it holds, wherever it was."""

import pytest

from attn.grading.classroom import plan, pools
from attn.grading.classroom.examiner import Examiner
from attn.grading.classroom.submissions import find
from tests.grading.classroom import fakes
from tests.grading.classroom.accidents import Accident
from tests.grading.classroom.damage.kinds import planned
from tests.grading.classroom.platforms import SUBMISSIONS, place
from tests.marks import exhaustive_but

ALL = Accident.every()


@pytest.fixture(scope="module")
def examiner():
    with Examiner(7) as examiner:
        yield examiner


#: One in 24, and those that were right only at the second look.
QUICK = [x for n, x in enumerate(ALL) if n % 24 == 0 or x.flags]


@pytest.mark.parametrize("accident", exhaustive_but(QUICK, ALL), ids=str)
def test_an_honest_notebook_gets_full_marks(accident, examiner, tmp_path):
    found = planned(accident.notebook(), tmp_path)
    marks = examiner.examine(found, plan.points(found.key))
    mark = next(x for x in marks if x.exercise == accident.exercise)
    assert mark.passed, f"{mark.status}: {mark.message}\n{mark.notes}"


# --- what platforms and their users do ---------------------------------------


#: The rest is in `make test-all`.
PARTS = (
    "all in one cell", "left below", "every cell twice", "ottered",
    "without metadata", "powershell", "nbconvert",
)  # fmt: skip
SHORT = [x for x in SUBMISSIONS if any(part in x for part in PARTS)]


@pytest.mark.parametrize("title", exhaustive_but(SHORT, SUBMISSIONS))
def test_a_submission_gets_its_points(title, tmp_path):
    place(title, tmp_path / "learner")
    found = {}
    for x in find([tmp_path]):
        marks = pools.work(x, fakes.OPTIONS).marks
        found[x.path.name] = {mark.exercise for mark in marks if mark.passed}
    assert found == SUBMISSIONS[title][1]


def test_there_are_as_many_as_were_found():
    assert len({str(x) for x in ALL}) == len(ALL) == 178
    assert len(SUBMISSIONS) == 27
