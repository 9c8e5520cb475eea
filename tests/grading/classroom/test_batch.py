"""A class is graded to its end, whatever its submissions do."""

import json
from dataclasses import asdict, replace

import pytest

from attn.grading.classroom import batch, grade
from attn.grading.classroom.pools import processes
from attn.grading.classroom.submissions import Submission, find
from attn.grading.sandbox.isolation import KINDS
from tests.grading.classroom import fakes
from tests.grading.classroom.damage.kinds import (
    DAMAGE,
    EXERCISES,
    FIRST,
    solved,
)
from tests.grading.classroom.fakes import OPTIONS
from tests.marks import exhaustive_but


def damaged(folder, kinds):
    for name in kinds:
        (folder / name).mkdir(parents=True)
        DAMAGE[name].place(folder / name, "x")
    return find([folder])


def test_a_broken_file_has_a_row_and_the_batch_ends(tmp_path, log, grade_all):
    submissions = damaged(tmp_path / "in", DAMAGE)
    results = grade_all(submissions)
    assert sorted(x.learner for x in results) == sorted(DAMAGE)
    for result in results:
        message = DAMAGE[result.learner].message
        assert (result.status == "unreadable") == bool(message)
        assert (message or "") in result.message and result.seed == 7
        exercises = [] if message else EXERCISES
        assert [x.exercise for x in result.marks] == exercises
        if not message:
            assert result.chapter == "05_gqa"
            assert result.isolation == KINDS["bubblewrap"]
    files = list((tmp_path / "out" / "results").iterdir())
    assert len(files) == len(DAMAGE)
    assert {*grade_all(submissions)} == {*results}
    assert len(fakes.graded_names(log)) == len(DAMAGE)  # no second time


@pytest.mark.exhaustive
def test_each_broken_file_is_graded_by_the_real_examiner(tmp_path):
    readable = [x for x in DAMAGE if not DAMAGE[x].message]
    submissions = damaged(tmp_path / "in", readable)
    out = tmp_path / "out"
    results = [*batch.run(submissions, OPTIONS, out, processes, jobs=2)]
    assert len(results) == len(submissions)
    for result in results:
        broken = DAMAGE[result.learner]
        assert not result.message
        assert [x.exercise for x in result.marks] == EXERCISES
        for mark in result.marks:
            expected = broken.status.get(mark.exercise, "passed")
            assert mark.status == expected, (result.learner, mark)


@pytest.mark.parametrize(
    ("options", "submission"),
    [
        ({"seed": 8}, {}),
        ({"timeout": 61}, {}),
        ({"points": {FIRST: 9}}, {}),
        ({"isolation": "none"}, {}),
        ({}, {"learner": "Ann"}),
        ({}, {"ids": ("7",)}),
        ({}, {"attempt": (2,)}),
        ({}, {}),
    ],
)
def test_what_changes_a_result_grades_again(
    options, submission, log, klass, monkeypatch, grade_all
):
    (before,) = klass("a")
    grade_all([before])
    if not options and not submission:
        monkeypatch.setattr(grade, "book", lambda: "newer")
    now = replace(OPTIONS, **options)
    (result,) = grade_all([replace(before, **submission)], now)
    assert len(fakes.graded_names(log)) == 2
    assert result.seed == now.seed
    worth = now.points.get(FIRST, result.marks[0].max_points)
    assert result.marks[0].points == worth
    assert asdict(result) == asdict(result) | submission


def test_a_stopped_batch_resumes_and_only_what_changed_is_graded_again(
    tmp_path, log, klass, grade_all
):
    submissions, out = klass("a", "b", "c"), tmp_path / "out"
    running = batch.run(submissions, OPTIONS, out, fakes.threads)
    first = next(running)
    running.close()
    (out / "results" / ".half.json.tmp").write_text("{")
    assert grade_all(submissions)[0] == first
    assert fakes.graded_names(log).count(first.submission) == 1
    submissions[0].path.write_text(json.dumps(solved() | {"cells": []}))
    stored = out / "results" / batch.file_name(submissions[1])
    for text in ("", "[]", '{"marks": 3}', stored.read_text()[:-9]):
        log.write_text("")
        stored.write_text(text)
        results = grade_all(submissions)
        assert sorted(x.learner for x in results) == ["a", "b", "c"]
        assert submissions[1].name in fakes.graded_names(log)
        assert submissions[2].name not in fakes.graded_names(log)
    assert {x.status for x in results} == {"graded"}


@pytest.mark.parametrize("end", exhaustive_but(["dies"], ["dies", "exits"]))
def test_a_submission_that_kills_its_grader_costs_no_other_submission(
    end, log, klass, grade_all
):
    submissions = klass("a", "a-stumbles", "b", "c", end, "z")
    graded = grade_all(submissions, pool=processes)
    results = {x.learner: x for x in graded}
    assert len(results) == 6
    dead = results.pop(end)
    assert dead.status == "unreadable"
    assert "its grader ended or hung, twice" in dead.message
    assert all(x.points == x.max_points > 0 for x in results.values())
    name = f"{end}/05_gqa.ipynb"
    assert fakes.graded_names(log).count(name) == 2
    log.write_text("")
    grade_all(submissions, pool=processes)
    assert {*fakes.graded_names(log)} == {name}, "only that is tried again"


@pytest.mark.parametrize("error", [ValueError("no"), MemoryError()])
def test_an_examiner_that_fails_leaves_a_mark_for_each_exercise(error, klass):
    class Failing(fakes.Examiner):
        def examine(self, plan, points):
            raise error

    result = grade.grade(*klass("a"), OPTIONS, Failing())
    assert [x.status for x in result.marks] == ["died"] * 5
    assert "our fault" in result.message
    assert result.digest == ""  # so that it is tried again


def test_a_reader_that_fails_leaves_an_unreadable_row(klass, monkeypatch):
    monkeypatch.setattr(grade.plan, "read", lambda _: 1 / 0)
    result = grade.grade(*klass("a"), OPTIONS, fakes.Examiner())
    assert (result.status, result.digest) == ("unreadable", "")
    assert "ZeroDivisionError" in result.message


# --- The folder --------------------------------------------------------------


def opened(out, paths=("in",), **options):
    places = [out.parent / x for x in paths]
    options = {"timeout": 60.0, "points": {}} | options
    with batch.opened(out, places, **options) as kept:
        (out / "results").mkdir(exist_ok=True)
        (out / "results" / "one.json").touch()
        return kept


def test_a_seed_is_drawn_once_and_kept_even_if_the_batch_grows(tmp_path):
    out = tmp_path / "new" / "out"
    seed = opened(out).seed
    assert opened(out).seed == opened(out, seed=seed).seed == seed
    assert opened(out, paths=("in", "late")).seed == seed
    assert opened(tmp_path / "other").seed != seed
    with batch.opened(tmp_path / "empty", [tmp_path / "in"], seed=1):
        (tmp_path / "empty/marks.csv").touch()
    assert opened(tmp_path / "empty", seed=2).seed == 2, "without results"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 2}, r"--seed \(its seed is 1\)"),
        ({"timeout": 9.0}, "--timeout"),
        ({"points": {FIRST: 2}}, "--points"),
        ({"isolation": "none"}, "--isolation"),
        ({"paths": ("other",)}, "its paths"),
    ],
)
def test_another_batch_is_never_overwritten(options, message, tmp_path):
    out = tmp_path / "out"
    opened(out, seed=1, isolation="bubblewrap")
    before = (out / "batch.json").read_bytes()
    options = {"seed": 1, "isolation": "bubblewrap"} | options
    with pytest.raises(ValueError, match=f"other options: {message}"):
        opened(out, **options)
    assert (out / "batch.json").read_bytes() == before


@pytest.mark.parametrize("name", ["batch.json", "thesis.tex"])
def test_a_folder_of_other_files_is_refused_and_left_unchanged(name, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "one.json").touch()
    (tmp_path / name).write_text("[1]")
    for out, message in ("", "name another"), (name, "new folder"):
        with pytest.raises(ValueError, match=message):
            opened(tmp_path / out)
    assert (tmp_path / name).read_text() == "[1]"


def test_two_batches_do_not_share_a_folder(tmp_path):
    with (
        batch.opened(tmp_path / "out", []),
        pytest.raises(ValueError, match="another attn grade"),
    ):
        opened(tmp_path / "out", ())


def test_what_a_learner_may_have_handed_in_is_no_folder_of_reports(tmp_path):
    """It could hold results, and marks by hand."""
    for out in (tmp_path, tmp_path / "grades", tmp_path / "mallory" / "x"):
        with pytest.raises(ValueError, match="a folder elsewhere with --out"):
            opened(out, [tmp_path])
        assert list(tmp_path.iterdir()) == []


def test_each_submission_has_a_file_of_its_own(tmp_path):
    names = ["a/b.py", "a_b.py", "A/b.py", "../b.py", "é/b.py", "x" * 300]
    every = [Submission(tmp_path, x, "a") for x in names]
    files = {batch.file_name(x).lower() for x in every}
    assert len(files) == len(names)
    for name in files:
        assert name.isascii() and len(name) < 120
        assert "/" not in name and not name.startswith(".")
