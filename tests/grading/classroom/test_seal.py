"""A result that was changed between two runs is judged again."""

import json
import os
import stat
import sys

import pytest

from attn.grading.classroom import seal
from tests.grading.classroom import fakes


def results_in(folder):
    return sorted((folder / "out" / "results").glob("*.json"))


def set_points(data):
    data["marks"][0]["points"] = 99


def set_status(data):
    data["marks"][1]["status"] = "wrong"


def praise(data):
    data["marks"][0]["message"] = "well done"


def unsealed(data):
    del data["seal"]


@pytest.mark.parametrize("change", [set_points, set_status, praise, unsealed])
def test_a_changed_result_is_judged_again(
    change, tmp_path, log, klass, grade_all
):
    submissions = klass("a", "b")
    before = {x.submission: x for x in grade_all(submissions)}
    path = results_in(tmp_path)[0]
    written = path.read_bytes()
    data = json.loads(written)
    change(data)
    path.write_text(json.dumps(data))
    log.write_text("")
    assert {x.submission: x for x in grade_all(submissions)} == before
    assert set(fakes.graded_names(log)) == {data["submission"]}
    assert path.read_bytes() == written


def test_what_nobody_changed_is_not_judged_again(log, klass, grade_all):
    submissions = klass("a", "b")
    grade_all(submissions)
    log.write_text("")
    seal._key.cache_clear()  # as in a new process
    grade_all(submissions)
    assert not fakes.graded_names(log)


def test_without_the_key_all_is_judged_again_and_is_the_same(
    tmp_path, state, log, klass, grade_all
):
    submissions = klass("a")
    before = grade_all(submissions)
    (state / "attn" / "seal.key").unlink()
    seal._key.cache_clear()
    log.write_text("")
    assert grade_all(submissions) == before
    assert len(set(fakes.graded_names(log))) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_the_key_is_readable_by_its_user_alone(state):
    seal.sealed({})
    (key,) = (state / "attn").iterdir()
    assert stat.S_IMODE(os.stat(key).st_mode) == 0o600
    assert len(key.read_bytes()) == 32


def test_where_no_key_can_be_kept_a_seal_holds_for_the_run(
    tmp_path, monkeypatch
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    data = seal.sealed({"points": 1})
    assert seal.opened(data) == {"points": 1}
    seal._key.cache_clear()
    with pytest.raises(ValueError, match="must fit"):
        seal.opened(data)
