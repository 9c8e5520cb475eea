"""An honest notebook gets the points of its own checks, whatever is in it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attn.grading.classroom import answers
from attn.grading.classroom.submissions import Submission
from tests.grading.classroom import fakes
from tests.grading.classroom.accidents import accidents
from tests.grading.sandbox.conftest import examined

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


def test_their_own_checks_give_them_full_marks(in_a_notebook):
    assert [name for name, passed in in_a_notebook.items() if not passed] == []
    assert list(in_a_notebook) == list(map(str, ALL))
    assert len(ALL) == 57 + 20
    assert len(set(map(str, ALL))) == len(ALL)
