"""A class of learners, and graders that cost next to nothing."""

import json

import pytest

from attn.grading.classroom.submissions import find
from tests.grading.classroom.damage.kinds import solved


@pytest.fixture
def log(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv("FAKE_LOG", str(path))
    return path


@pytest.fixture
def klass(tmp_path):
    """A folder of submissions, by the learners' names."""
    folder = tmp_path / "in"
    folder.mkdir()

    def make(*learners):
        for name in learners:
            path = folder / name / "05_gqa.ipynb"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(solved()))
        return find([folder])

    return make
