"""A class is graded to its end, whatever its submissions do."""

import json
import operator
import os
import socket
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from attn.grading.classroom import batch, grade, pools
from attn.grading.classroom.grade import Options
from attn.grading.classroom.result import Result, to_json
from attn.grading.classroom.submissions import find
from tests.grading.classroom import fakes
from tests.grading.classroom.damage.kinds import (
    DAMAGE,
    EXERCISES,
    FIRST,
    solved,
)

OPTIONS = Options(seed=7)


def graded(submissions, out, options=OPTIONS, **more):
    more = {"jobs": 2, "work": fakes.work} | more
    out.mkdir(exist_ok=True)
    return list(batch.run(submissions, options, out, **more))


def calls(log):
    return [line.split()[0] for line in log.read_text().splitlines()]


def test_each_broken_file_has_one_row_and_the_batch_ends(tmp_path, log):
    folder = tmp_path / "in"
    for name, broken in DAMAGE.items():
        (folder / name).mkdir(parents=True)
        broken.place(folder / name, "x")
    submissions = find([folder])
    results = graded(submissions, tmp_path / "out")
    assert sorted(x.learner for x in results) == sorted(DAMAGE)
    for result in results:
        broken = DAMAGE[result.learner]
        if broken.message:
            assert result.status == "unreadable"
            assert broken.message in result.message
            assert not result.marks
        else:
            passed = {x.exercise for x in result.marks if x.passed}
            assert passed == set(EXERCISES) - set(broken.status)
            assert [x.exercise for x in result.marks] == EXERCISES
    files = list((tmp_path / "out" / "results").iterdir())
    assert len(files) == len(DAMAGE)
    again = graded(submissions, tmp_path / "out")
    assert {x.submission: x for x in again} == {
        x.submission: x for x in results
    }
    assert len(calls(log)) == len(DAMAGE)  # no second time


@pytest.mark.exhaustive
def test_each_broken_file_is_graded_by_the_real_examiner(tmp_path):
    folder = tmp_path / "in"
    for name, broken in DAMAGE.items():
        if not broken.message:
            (folder / name).mkdir(parents=True)
            broken.place(folder / name, "x")
    submissions = find([folder])
    results = graded(submissions, tmp_path / "out", work=fakes.judge)
    assert len(results) == len(submissions)
    for result in results:
        broken = DAMAGE[result.learner]
        assert not result.message
        assert [x.exercise for x in result.marks] == EXERCISES
        for mark in result.marks:
            expected = broken.status.get(mark.exercise, "passed")
            if expected == "wrong":  # its text differs from the solution's
                expected = broken.judged.get(mark.exercise, "passed")
            assert mark.status == expected, (result.learner, mark)


def test_a_stopped_batch_resumes(tmp_path, log, klass):
    submissions = klass("a", "b", "c", "d")
    out = tmp_path / "out"
    out.mkdir()
    running = batch.run(submissions, OPTIONS, out, jobs=1, work=fakes.work)
    first = next(running)
    running.close()
    (out / "results" / ".half.json.tmp").write_text("{")
    log.write_text("")
    results = graded(submissions, out)
    assert results[0] == first
    assert sorted(x.learner for x in results) == ["a", "b", "c", "d"]
    assert first.submission not in calls(log)


@pytest.mark.parametrize(
    "options",
    [
        replace(OPTIONS, seed=8),
        replace(OPTIONS, timeout=61),
        replace(OPTIONS, points={FIRST: 9}),
    ],
)
def test_other_options_grade_again(options, tmp_path, log, klass):
    submissions = klass("a")
    graded(submissions, tmp_path / "out")
    (result,) = graded(submissions, tmp_path / "out", options)
    assert len(calls(log)) == 2
    assert result.seed == options.seed
    worth = options.points.get(FIRST, result.marks[0].max_points)
    assert result.marks[0].points == worth


def test_only_changed_submissions_are_graded_again(tmp_path, log, klass):
    submissions = klass("a", "b", "c")
    out = tmp_path / "out"
    graded(submissions, out)
    submissions[0].path.write_text(json.dumps(solved() | {"cells": []}))
    stored = out / "results" / batch.file_name(submissions[1])
    for text in ("", "[]", '{"marks": 3}', stored.read_text()[:-9]):
        log.write_text("")
        stored.write_text(text)
        results = graded(submissions, out)
        assert len(results) == 3
        assert submissions[1].name in calls(log)
        assert submissions[2].name not in calls(log)
    assert {x.status for x in results} == {"graded"}


def test_a_newer_book_grades_all_again(tmp_path, log, klass, monkeypatch):
    submissions = klass("a")
    graded(submissions, tmp_path / "out")
    monkeypatch.setattr(grade, "book", lambda: "newer")
    graded(submissions, tmp_path / "out")
    assert len(calls(log)) == 2


@pytest.mark.parametrize(
    "end", ["dies", pytest.param("exits", marks=pytest.mark.exhaustive)]
)
def test_a_submission_that_kills_its_grader_costs_no_other_submission(
    end, tmp_path, log, klass
):
    submissions = klass("a", "a-stumbles", "b", "c", end, "z")
    results = {x.learner: x for x in graded(submissions, tmp_path / "out")}
    assert len(results) == 6
    dead = results.pop(end)
    assert dead.status == "unreadable"
    assert "its grader ended or hung, twice" in dead.message
    assert all(x.points == x.max_points > 0 for x in results.values())
    count = calls(log).count(f"{end}/05_gqa.ipynb")
    assert count == 2
    log.write_text("")
    graded(submissions, tmp_path / "out")  # only that one is tried again
    assert set(calls(log)) == {f"{end}/05_gqa.ipynb"}


def test_a_result_records_its_seed_isolation_and_chapter(tmp_path, log, klass):
    (result,) = graded(klass("a"), tmp_path / "out")
    assert result.seed == 7
    assert result.isolation == fakes.Examiner.isolation
    assert result.chapter == "05_gqa"
    (file,) = (tmp_path / "out" / "results").iterdir()
    assert json.loads(file.read_text()) == to_json(result) | {
        "marks": [x | {"notes": []} for x in to_json(result)["marks"]],
        "notes": [],
    }


class Failing(fakes.Examiner):
    def __init__(self, after, error):
        self.after, self.error = after, error

    def examine(self, key, cells, points):
        marks = super().examine(key, cells, points)
        for _ in range(self.after):
            yield next(marks)
        if self.error:
            raise self.error


@pytest.mark.parametrize(
    "error", [ValueError("no"), MemoryError(), RecursionError(), None]
)
@pytest.mark.parametrize("after", [0, 2])
def test_an_examiner_that_fails_leaves_a_mark_for_each_exercise(
    after, error, klass
):
    (submission,) = klass("a")
    result = grade.grade(submission, OPTIONS, Failing(after, error))
    status = [x.status for x in result.marks]
    assert status == ["passed"] * after + ["died"] * (5 - after)
    assert "our fault" in result.message
    assert result.digest == ""  # so that it is tried again


def test_a_reader_that_fails_leaves_an_unreadable_row(klass, monkeypatch):
    (submission,) = klass("a")
    monkeypatch.setattr(grade.answers, "read", lambda _: 1 / 0)
    result = grade.grade(submission, OPTIONS, fakes.Examiner())
    assert result.status == "unreadable"
    assert "ZeroDivisionError" in result.message
    assert result.digest == ""


def test_notes_are_stored_with_their_exercise(tmp_path):
    path = DAMAGE["magics"].place(tmp_path, "x")
    result = grade.grade(find([path])[0], OPTIONS, fakes.Examiner())
    assert "%%time" in result.marks[0].notes[0]
    assert not result.marks[2].notes


# --- the folder --------------------------------------------------------------


def opened(out, paths=("in",), **options):
    with batch.opened(out, [out.parent / x for x in paths], **options) as had:
        (out / "results").mkdir(exist_ok=True)
        (out / "results" / "one.json").touch()
        return had


def test_a_folder_without_results_can_be_used_by_any_batch(tmp_path):
    out = tmp_path / "out"
    with batch.opened(out, [tmp_path], seed=1):
        pass
    assert opened(out, seed=2).seed == 2


def test_a_seed_is_drawn_once_and_kept(tmp_path):
    out = tmp_path / "new" / "out"
    seed = opened(out).seed
    assert opened(out).seed == seed
    assert opened(out, seed=seed).seed == seed
    assert opened(tmp_path / "other").seed != seed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 2}, "--seed"),
        ({"seed": 1, "timeout": 9}, "--timeout"),
        ({"seed": 1, "points": {FIRST: 2}}, "--points"),
        ({"seed": 1, "paths": ("other",)}, "its paths"),
    ],
)
def test_another_batch_is_never_overwritten(options, message, tmp_path):
    out = tmp_path / "out"
    opened(out, seed=1)
    before = (out / "batch.json").read_bytes()
    with pytest.raises(ValueError, match=f"other options: {message}"):
        opened(out, **options)
    assert (out / "batch.json").read_bytes() == before


def test_paths_can_be_added_to_a_batch(tmp_path):
    out = tmp_path / "out"
    seed = opened(out).seed
    assert opened(out, paths=("in", "late")).seed == seed
    with pytest.raises(ValueError, match="its paths"):
        opened(out)


@pytest.mark.parametrize("name", ["batch.json", "thesis.tex"])
def test_a_folder_of_other_files_is_refused_and_left_unchanged(name, tmp_path):
    (tmp_path / name).write_text("[1]")
    with pytest.raises(ValueError, match="name another"):
        opened(tmp_path)
    assert (tmp_path / name).read_text() == "[1]"
    with pytest.raises(ValueError, match="new folder"):
        opened(tmp_path / name)


def test_two_batches_do_not_share_a_folder(tmp_path):
    with (
        batch.opened(tmp_path / "out", []),
        pytest.raises(ValueError, match="another attn grade"),
    ):
        opened(tmp_path / "out", ())


def test_each_submission_has_a_file_of_its_own(tmp_path):
    names = ["a/b.py", "a_b.py", "A/b.py", "../b.py", "é/b.py", "x" * 300]
    files = {
        batch.file_name(find_named(tmp_path, name)).lower() for name in names
    }
    assert len(files) == len(names)
    for name in files:
        assert name.isascii() and len(name) < 120
        assert "/" not in name and not name.startswith(".")


def find_named(folder, name):
    (folder / "x.py").touch()
    return replace(find([folder / "x.py"])[0], name=name)


# --- the workers -------------------------------------------------------------


def test_real_workers_grade_and_end(tmp_path, log, klass):
    submissions = klass("a", "b")
    results = graded(submissions, tmp_path / "out")
    assert all(x.points == x.max_points > 0 for x in results)
    workers = {int(line.split()[1]) for line in log.read_text().splitlines()}
    assert os.getpid() not in workers
    assert not any(map(fakes.is_running, workers))


def test_a_grader_that_hangs_is_stopped(tmp_path, log, klass, monkeypatch):
    monkeypatch.setattr(pools, "_limit", lambda options: 1)
    results = graded(klass("a", "sleeps"), tmp_path / "out")
    rows = {x.learner: x for x in results}
    assert rows["a"].points == rows["a"].max_points > 0
    assert "hung" in rows["sleeps"].message
    for line in log.read_text().splitlines():
        assert not fakes.is_running(int(line.split()[1]))


ORPHANS = """
import os, time
from attn.grading.classroom import pools

with pools.processes(2) as (executor, _):
    print(executor.submit(os.getpid).result(), flush=True)
    executor.submit(time.sleep, 600).result()
"""


def test_workers_end_when_their_batch_is_killed():
    command = [sys.executable, "-c", ORPHANS]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        worker = int(parent.stdout.readline())
        assert fakes.is_running(worker)
        parent.kill()
    while fakes.is_running(worker):
        time.sleep(0.05)


def test_there_are_as_many_workers_as_cores():
    assert batch.cores() == len(os.sched_getaffinity(0))


# --- Dask --------------------------------------------------------------------


def test_dask_needs_its_package(tmp_path, klass, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match="pip install distributed"):
        graded(klass("a"), tmp_path / "out", dask="tcp://127.0.0.1:1")


def listening():
    """A port that something listens on, in place of a scheduler."""
    return socket.create_server(("127.0.0.1", 0))


@pytest.fixture
def cluster(monkeypatch):
    """A Dask with these workers, as far as we use it."""

    def start(workers):
        class Client:
            def __init__(self, address, **_):
                assert address.startswith("tcp://127.0.0.1:")

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

            def nthreads(self):
                return dict.fromkeys(workers, 2)

            def get_executor(self, **_):
                return ThreadPoolExecutor(len(workers))

        fake = types.SimpleNamespace(Client=Client)
        monkeypatch.setitem(sys.modules, "distributed", fake)

    return start


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:x", "", "x://"])
def test_dask_needs_a_scheduler(address, tmp_path, klass, cluster):
    cluster("ab")
    with pytest.raises(ValueError, match="must be the address of a running"):
        graded(klass("a"), tmp_path / "out", dask=address)


def test_dask_needs_workers(tmp_path, klass, cluster):
    cluster("")
    with listening() as port:
        address = "127.0.0.1:{1}".format(*port.getsockname())
        with pytest.raises(ValueError, match="must name a cluster with work"):
            graded(klass("a"), tmp_path / "out", dask=address)


def test_a_cluster_grades_as_this_machine_does(tmp_path, log, klass, cluster):
    cluster("ab")
    with listening() as port:
        address = "tcp://127.0.0.1:{1}".format(*port.getsockname())
        results = graded(klass("a", "b"), tmp_path / "out", dask=address)
    assert sorted(x.learner for x in results) == ["a", "b"]
    assert all(isinstance(x, Result) and x.points for x in results)


@pytest.mark.exhaustive
def test_a_real_cluster_grades(tmp_path, klass):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        submissions = klass("a", "b", "c")
        there = graded(submissions, tmp_path / "there", dask=address)
    here = graded(submissions, tmp_path / "here")
    by_name = operator.attrgetter("submission")
    assert sorted(there, key=by_name) == sorted(here, key=by_name)
