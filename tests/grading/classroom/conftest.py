"""A class of learners, and graders that cost next to nothing."""

import json

import pytest

from attn.grading.classroom import batch, pools
from attn.grading.classroom.submissions import find
from tests.grading.classroom import fakes
from tests.grading.classroom.damage.kinds import solved


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Grade by comparing texts, and log what is graded."""
    monkeypatch.setattr(pools, "work", fakes.work)
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv("FAKE_LOG", str(path))
    return path


@pytest.fixture
def klass(tmp_path, log):
    """Write and find submissions, by the learners' names."""
    folder = tmp_path / "in"
    folder.mkdir()

    def make(*learners):
        for name in learners:
            path = folder / name / "05_gqa.ipynb"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(solved()))
        return find([folder])

    return make


@pytest.fixture
def grade_all(tmp_path, log):
    """Grade submissions, two at a time."""

    def results(submissions, options=fakes.OPTIONS, out="out", **more):
        more = {"jobs": 2, "pool": fakes.threads} | more
        return list(batch.run(submissions, options, tmp_path / out, **more))

    return results
