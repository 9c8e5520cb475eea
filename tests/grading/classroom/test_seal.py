"""A result that was changed between two runs is judged again."""

import json
import os
import shutil
import stat
import sys
from dataclasses import replace

import pytest

from attn.grading.classroom import batch, seal
from attn.grading.classroom.submissions import find
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


# --- Ways round it -----------------------------------------------------------


def swapped(one, two):
    shutil.move(one, one.with_suffix(".x"))
    shutil.move(two, one)
    shutil.move(one.with_suffix(".x"), two)


def under_its_name(one, two):
    """Give a result another learner's, with its own name in it."""
    own, other = (json.loads(x.read_text()) for x in (one, two))
    names = {x: own[x] for x in ("submission", "learner")}
    one.write_text(json.dumps(other | names))


WAYS = {
    "two are swapped": swapped,
    "another learner's": lambda one, two: shutil.copy(two, one),
    "another's, renamed": under_its_name,
    "half of it": lambda one, two: os.truncate(one, one.stat().st_size // 2),
    "nothing": lambda one, two: os.truncate(one, 0),
    "no JSON object": lambda one, two: one.write_text("[1]"),
    "a seal that is no text": lambda one, two: one.write_text(
        json.dumps(json.loads(one.read_text()) | {"seal": [1]})
    ),
    "a seal of odd letters": lambda one, two: one.write_text(
        json.dumps(json.loads(one.read_text()) | {"seal": "\ud800é"})
    ),
    "nested too deeply": lambda one, two: one.write_text("[" * 10**6),
    "a link": lambda one, two: (one.unlink(), one.symlink_to(two)),
    "a pipe": lambda one, two: (one.unlink(), os.mkfifo(one)),
    "a device": lambda one, two: (one.unlink(), one.symlink_to("/dev/zero")),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_other_file_is_taken_for_a_result(
    way, tmp_path, log, klass, grade_all
):
    submissions = klass("a", "b")
    (tmp_path / "in/b/05_gqa.ipynb").write_text("{}")
    before = {x.submission: x for x in grade_all(submissions)}
    paths = {
        json.loads(x.read_text())["learner"]: x for x in results_in(tmp_path)
    }
    written = {x: x.read_bytes() for x in paths.values()}
    way(paths["a"], paths["b"])
    log.write_text("")
    assert {x.submission: x for x in grade_all(submissions)} == before
    assert "a/05_gqa.ipynb" in fakes.graded_names(log)
    assert {x: x.read_bytes() for x in paths.values()} == written
    assert not any(x.is_symlink() for x in paths.values())


def test_an_older_result_of_the_same_learner_is_judged_again(
    tmp_path, log, klass, grade_all
):
    submissions = klass("a")
    grade_all(submissions)
    (path,) = results_in(tmp_path)
    better = path.read_bytes()
    (tmp_path / "in/a/05_gqa.ipynb").write_text("{}")
    worse = grade_all(submissions)
    assert worse[0].status == "unreadable"
    path.write_bytes(better)
    log.write_text("")
    assert grade_all(submissions) == worse
    assert len(fakes.graded_names(log)) == 1


def test_a_result_is_that_of_its_learner(log, klass, grade_all):
    submissions = klass("a")
    grade_all(submissions)
    (renamed,) = [replace(x, learner="b") for x in submissions]
    assert [x.learner for x in grade_all([renamed])] == ["b"]
    assert len(fakes.graded_names(log)) == 2


def test_a_seed_that_somebody_has_chosen_is_drawn_again(tmp_path, klass):
    klass("a")
    out, paths = tmp_path / "out", [tmp_path / "in"]
    with batch.opened(out, paths, seed=5) as options:
        list(batch.run(find(paths), options, out, jobs=1, work=fakes.work))
    with batch.opened(out, paths) as kept:
        assert kept.seed == 5
    stored = json.loads((out / "batch.json").read_text())
    (out / "batch.json").write_text(json.dumps(stored | {"seed": 6}))
    with batch.opened(out, paths) as other:
        assert other.seed not in (5, 6)


def test_nothing_is_written_through_a_link(tmp_path, klass, grade_all):
    submissions = klass("a")
    kept = tmp_path / "kept"
    kept.write_text("kept")
    name = batch.file_name(submissions[0])
    (tmp_path / "out" / "results").mkdir(parents=True)
    (tmp_path / "out" / "results" / f".{name}.tmp").symlink_to(kept)
    grade_all(submissions)
    assert kept.read_text() == "kept"
    assert len(results_in(tmp_path)) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_a_key_that_others_could_open_is_no_key(state):
    sealed = seal.sealed({"points": 1})
    key = state / "attn" / "seal.key"
    for odd in (0o644, 0o606):
        key.chmod(odd)
        seal._key.cache_clear()
        with pytest.raises(ValueError, match="must fit"):
            seal.opened(sealed)
    key.chmod(0o600)
    seal._key.cache_clear()
    assert seal.opened(sealed) == {"points": 1}
    shutil.move(key, state / "elsewhere")
    key.symlink_to(state / "elsewhere")
    seal._key.cache_clear()
    with pytest.raises(ValueError, match="must fit"):
        seal.opened(sealed)
