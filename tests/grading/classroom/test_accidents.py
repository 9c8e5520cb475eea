"""An honest notebook gets the points of its own checks, whatever is in it."""

import pytest

from attn.grading.classroom import plan
from attn.grading.classroom.examiner import Examiner
from tests.grading.classroom.accidents import Accident
from tests.grading.classroom.damage.kinds import planned
from tests.marks import exhaustive_but

ALL = Accident.every()


@pytest.fixture(scope="module")
def examiner():
    with Examiner(7) as examiner:
        yield examiner


#: One in 24, and those that were right only at the second look.
QUICK = [x for n, x in enumerate(ALL) if n % 24 == 0 or x.flags]


@pytest.mark.parametrize(
    "accident",
    exhaustive_but(QUICK, ALL),
    ids=str,
)
def test_an_honest_notebook_gets_full_marks(accident, examiner, tmp_path):
    found = planned(accident.notebook(), tmp_path)
    marks = examiner.examine(found, plan.points(found.key))
    mark = next(x for x in marks if x.exercise == accident.exercise)
    assert mark.passed, f"{mark.status}: {mark.message}\n{mark.notes}"


def test_there_are_as_many_as_were_found():
    assert len({str(x) for x in ALL}) == len(ALL) == 178
