"""An honest notebook gets the points of its own checks, whatever is in it."""

import json
from collections import Counter

import pytest

from attn.grading.classroom import plan, pools
from attn.grading.classroom.examiner import Examiner
from attn.grading.classroom.submissions import Submission
from tests.grading.classroom.accidents import accidents
from tests.grading.classroom.damage.kinds import planned
from tests.grading.classroom.fakes import OPTIONS
from tests.marks import exhaustive_but
from tests.notebooks.learners import pytest_nbval, total

ALL = accidents()


@pytest.fixture(scope="module")
def examiner():
    with Examiner(7) as examiner:
        yield examiner


#: One in 24, and those that were right only at the second look.
QUICK = [x for n, x in enumerate(ALL) if n % 24 == 0 or x.again]


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
    count = Counter(x.family for x in ALL)
    assert count == {
        "apart": 23, "beside": 34, "usual": 20, "inside": 6, "lost": 28,
        "manners": 23, "running": 43,
    }  # fmt: skip
    assert len({str(x) for x in ALL}) == len(ALL)


#: For each notebook, what is wrong in it beside right answers.
TOGETHER = {
    "sdp": ("a decorator in another cell", "forward in the next cell"),
    "mask": ("a table that a loop fills", "checks of types"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("key", TOGETHER)
def test_nbval_gives_the_same_points(key, tmp_path):
    book = None
    for accident in ALL:
        is_of = accident.exercise.startswith(f"{key}-")
        if is_of and accident.title in TOGETHER[key]:
            book = accident.notebook(book)
    for i, cell in enumerate(book["cells"]):
        cell |= {"id": f"c{i}", "outputs": [], "execution_count": None}
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(book))
    _, score = pytest_nbval(path)
    result = pools.work(Submission(path, "x.ipynb", "x"), OPTIONS)
    assert total(*score.values()) == (result.points, result.max_points)
    assert result.points == result.max_points > 10
