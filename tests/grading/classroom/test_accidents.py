"""An honest notebook gets the points of its own checks, whatever is in it."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from attn.grading.classroom import answers
from attn.grading.classroom.submissions import Submission
from tests.grading.classroom import fakes
from tests.grading.classroom.accidents import accidents
from tests.grading.sandbox.conftest import examined
from tests.notebooks.learners import pytest_nbval, total

ALL = accidents()


def read(book, folder):
    path = folder / "x.ipynb"
    path.write_text(json.dumps(book))
    return answers.read(Submission(path, path.name, path.stem))


@pytest.fixture(scope="module")
def in_a_notebook(tmp_path_factory):
    """Whether each accident passes its check where it was written."""
    done = subprocess.run(
        [
            *(sys.executable, "-m"),
            "tests.grading.classroom.accidents.in_ipython",
        ],
        cwd=tmp_path_factory.mktemp("notebooks"),
        env={**os.environ, "PYTHONPATH": str(Path.cwd()), "MPLBACKEND": "agg"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("accident", ALL, ids=str)
def test_an_honest_notebook_gets_full_marks(accident, tmp_path):
    text = read(accident.notebook(), tmp_path).cells[accident.exercise]
    marks = examined(
        fakes.examiner(7), accident.key, {accident.exercise: text}
    )
    mark = marks[accident.exercise]
    assert mark.passed, f"{mark.status}: {mark.message}\n{text}"


def test_there_are_as_many_as_were_found():
    count = Counter(x.family for x in ALL)
    lost, manners = count.pop("lost"), count.pop("manners")
    inside, usual = count.pop("inside"), count.pop("usual")
    assert (count.total(), usual, inside) == (57, 20, 6)
    assert (lost, manners) == (28, 23)
    assert len({str(x) for x in ALL}) == len(ALL)


@pytest.mark.exhaustive
def test_their_own_checks_give_them_full_marks(in_a_notebook):
    assert [name for name, passed in in_a_notebook.items() if not passed] == []
    assert list(in_a_notebook) == list(map(str, ALL))


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
        if accident.key == key and accident.title in TOGETHER[key]:
            book = accident.notebook(book)
    for i, cell in enumerate(book["cells"]):
        cell |= {"id": f"c{i}", "outputs": [], "execution_count": None}
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(book))
    _, score = pytest_nbval(path)
    result = fakes.judge(Submission(path, "x.ipynb", "x"), fakes.OPTIONS)
    assert total(*score.values()) == (result.points, result.max_points)
    assert result.points == result.max_points > 10
