"""``attn grade`` grades a class, as a teacher types it."""

import json
import os
import signal
import stat
import sys
import threading
from functools import partial

import pytest

from attn.__main__ import main
from attn.grading.classroom import batch, progress
from tests.grading.classroom import fakes
from tests.grading.classroom.damage.kinds import FIRST


@pytest.fixture
def attn_grade(tmp_path, monkeypatch, log, capfd):
    """Run the command in a folder of its own; texts are compared only."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(batch, "run", partial(batch.run, work=fakes.work))

    def call(*words):
        status = main(["grade", *words])
        return status, *capfd.readouterr()

    return call


def test_a_class_has_a_table_and_reports(
    attn_grade, klass, tmp_path, monkeypatch
):
    monkeypatch.setattr(progress, "PATIENCE", 600.0)
    klass("ann", "bo")
    status, out, err = attn_grade("in", "--seed", "5", "--jobs", "2")
    assert status == 0
    assert err == ""
    assert "ann" in out and "bo" in out and "seed 5" in out
    assert fakes.Examiner.isolation in out
    made = {x.name for x in (tmp_path / "grades").iterdir()}
    assert {"batch.json", "results", "class.csv", "junit.xml"} <= made
    table = (tmp_path / "grades/class.csv").read_text()
    assert table.index("ann") < table.index("bo")


def test_who_waits_sees_a_line_a_submission_where_there_is_no_terminal(
    attn_grade, klass, monkeypatch
):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    klass("ann", "bo")
    _, _, err = attn_grade("in", "--jobs", "1")
    one, two = err.splitlines()
    assert one.startswith("graded 1 of 2: ") and "/05_gqa.ipynb" in one
    assert two.startswith("graded 2 of 2: ")


def test_a_broken_submission_is_a_row_and_no_error(
    attn_grade, klass, tmp_path
):
    klass("ann", "bo")
    (tmp_path / "in/bo/05_gqa.ipynb").write_text("{")
    status, out, _ = attn_grade("in")
    assert status == 0
    assert "bo" in out
    table = (tmp_path / "grades/class.csv").read_text()
    assert "breaks off" in table


def test_the_same_command_grades_nothing_twice(attn_grade, klass, log):
    klass("ann", "bo")
    _, first, _ = attn_grade("in")
    _, second, _ = attn_grade("in")
    assert first == second
    assert len(log.read_text().splitlines()) == 2


def test_reports_are_not_taken_for_submissions(attn_grade, klass, tmp_path):
    klass("ann")
    for _ in range(2):
        status, out, _ = attn_grade("in", "--out", "in/ann/grades")
        assert status == 0
    rows = json.loads((tmp_path / "in/ann/grades/report.json").read_text())
    assert str(rows).count("05_gqa.ipynb") > 0
    assert len(list((tmp_path / "in/ann/grades/results").iterdir())) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere"),
        (["in", "--points", "nowhere.csv"], "nowhere.csv"),
        (["in", "--out", "log"], "must be a new folder"),
        (["in", "--dask", "nowhere"], "dask"),
    ],
)
def test_a_wrong_argument_is_reported_before_anything_is_graded(
    words, message, attn_grade, klass, log, tmp_path
):
    klass("ann")
    status, out, err = attn_grade(*words)
    assert status == 2
    assert out == ""
    assert err.startswith("attn grade: ") and message in err
    assert log.read_text() == ""


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["in", "--jobs", "0"],
        ["in", "--jobs", "two"],
        ["in", "--timeout", "-1"],
        ["in", "--timeout", "nan"],
        ["in", "--timeout", "inf"],
        ["in", "--seed", "-1"],
        ["in", "--seed", "x"],
    ],
)
def test_an_invalid_option_is_a_usage_error(words, attn_grade, capfd):
    with pytest.raises(SystemExit) as end:
        attn_grade(*words)
    assert end.value.code == 2
    assert "attn grade" in capfd.readouterr().err


def test_a_package_that_is_missing_is_named(attn_grade, klass, monkeypatch):
    klass("ann")
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    status, _, err = attn_grade("in")
    assert status == 2
    assert "rich.progress is not installed" in err
    assert "attn[learn,grade]" in err


def test_no_submission_is_imported_whatever_its_name(
    attn_grade, klass, tmp_path, monkeypatch
):
    monkeypatch.setattr(progress, "PATIENCE", 600.0)
    klass("ann", "bo")
    names = "multiprocessing pickle random signal socket struct threading"
    for name in names.split():
        text = f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r})\n"
        (tmp_path / f"{name}.py").write_text(text)
    path = sys.path[:]
    status, out, err = attn_grade("in", "--jobs", "1")
    assert (status, err) == (0, "")
    assert "ann" in out and "bo" in out
    assert not (tmp_path / "imported").exists()
    assert sys.path == path and "PYTHONSAFEPATH" not in os.environ


def test_another_seed_needs_another_folder(attn_grade, klass):
    klass("ann")
    attn_grade("in", "--seed", "1")
    status, _, err = attn_grade("in", "--seed", "2")
    assert status == 2
    assert "--seed (its seed is 1)" in err
    assert attn_grade("in", "--seed", "2", "--out", "two")[0] == 0


def test_a_teachers_points_are_in_the_marks(attn_grade, klass, tmp_path):
    klass("ann")
    (tmp_path / "ps1.csv").write_text(f"{FIRST},40\n")
    attn_grade("in", "--points", "ps1.csv")
    (path,) = (tmp_path / "grades/results").iterdir()
    marks = json.loads(path.read_text())["marks"]
    assert marks[0]["points"] == marks[0]["max_points"] == 40


def test_a_roster_comes_back_with_the_points_and_those_who_are_absent(
    attn_grade, klass, tmp_path
):
    klass("ann", "bo", "zoe")
    (tmp_path / "in/bo/05_gqa.ipynb").write_text("{")
    roster = "Name,Login,Grade\nann,a,\nbo,b,-\ncem,c,\n"
    (tmp_path / "class.csv").write_text(roster)
    status, out, _ = attn_grade("in", "--roster", "class.csv")
    assert status == 0
    assert "nothing handed in" in out and "not in the roster: zoe" in out
    assert "1 handed in nothing" in out
    filled = (tmp_path / "grades/roster.csv").read_text()
    assert filled == roster.replace("ann,a,", "ann,a,11")
    assert (tmp_path / "class.csv").read_text() == roster
    table = (tmp_path / "grades/class.csv").read_text("utf-8-sig")
    assert "cem,nothing handed in,," in table
    page = (tmp_path / "grades/index.html").read_text()
    assert "Nothing handed in" in page
    status, _, err = attn_grade("in", "--column", "Grade")
    assert status == 2 and "--column must come with --roster" in err


@pytest.mark.parametrize("seen", [(), ("batch.json",)])
def test_a_learners_folder_gives_no_marks_by_hand(
    seen, attn_grade, klass, tmp_path
):
    klass("ann")
    planted = tmp_path / "in/grades/marks.csv"
    planted.parent.mkdir()
    text = f"learner,exercise,points,late_days,comment\nann,{FIRST},9,,\n"
    planted.write_text(text)
    stored = {"paths": [], "seed": 7, "timeout": 60, "points": {}}
    for name in seen:
        (planted.parent / name).write_text(json.dumps(stored))
    status, out, err = attn_grade("in", "--out", "in/grades")
    assert (status, out) == (2, "") and "may have handed it in" in err
    for path in planted.parent.iterdir():
        path.unlink()
    assert attn_grade("in", "--out", "in/grades")[0] == 0
    planted.write_text(text)  # the teacher's
    assert " 9 of" in attn_grade("in", "--out", "in/grades")[1]


def test_a_link_that_a_learner_planted_is_not_written_to(
    attn_grade, klass, tmp_path
):
    klass("ann")
    mine = tmp_path / "mine"
    mine.write_text("kept")
    (tmp_path / "in/grades").mkdir()
    (tmp_path / "in/grades/.lock").symlink_to(mine)
    status, _, err = attn_grade("in", "--out", "in/grades")
    assert status == 1 and ".lock" in err
    assert mine.read_text() == "kept"


def test_marks_by_hand_outlive_a_second_run_and_cost_no_judging(
    attn_grade, klass, tmp_path, log
):
    klass("ann")
    attn_grade("in")
    path = tmp_path / "grades/marks.csv"
    mine = path.read_text() + f"ann,{FIRST},0.5,2,see me\n"
    path.write_text(mine)
    for _ in range(2):
        status, out, _ = attn_grade("in")
        assert status == 0 and "see me" in out
        table = (tmp_path / "grades/class.csv").read_text("utf-8-sig")
        assert "0.5 of" in table and "see me" in table
        assert path.read_text() == mine
    path.write_text(mine + "eve,,1,,\n")
    status, out, err = attn_grade("in")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert "marks.csv, line 3: learner must be" in err
    assert len(log.read_text().splitlines()) == 1


def test_again_and_partial_reach_the_batch(attn_grade, klass, tmp_path, log):
    klass("ann", "bo")
    attn_grade("in", "--partial")
    status, _, _ = attn_grade("in", "--partial", "--again", "bo")
    assert status == 0
    assert fakes.graded_names(log)[2:] == ["bo/05_gqa.ipynb"]
    batch = json.loads((tmp_path / "grades/batch.json").read_text())
    assert batch["partial"] is True
    status, _, err = attn_grade("in", "--partial", "--again", "eve")
    assert status == 2 and "--again must name a learner" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_command_and_keeps_its_results(
    number, attn_grade, klass, tmp_path, log
):
    klass("ann", "sleeps", "zoe")
    # A shell's background jobs begin with Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def stop_when_one_is_graded():
        folder = tmp_path / "grades/results"
        while not list(folder.glob("*.json")):
            threading.Event().wait(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=stop_when_one_is_graded, daemon=True).start()
    try:
        status, out, err = attn_grade("in", "--jobs", "1")
    finally:
        signal.signal(signal.SIGINT, before)
    assert status == 130
    assert "stopped, with 1 of 3 submissions graded" in err
    assert "the same command" in err
    assert "ann" not in out  # there is no table of a part
    assert not any(map(fakes.is_running, fakes.grader_pids(log)))


def test_help_shows_examples_options_and_the_exit_status(capsys):
    with pytest.raises(SystemExit) as end:
        main(["grade", "--help"])
    assert end.value.code == 0
    usage = capsys.readouterr().out
    for word in ("examples:", "--out", "--dask", "goes on", "exit status"):
        assert word in usage


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_what_is_written_no_other_user_can_change(
    umask, attn_grade, klass, tmp_path
):
    klass("ann")
    before = os.umask(umask)
    try:
        assert attn_grade("in", "--jobs", "1")[0] == 0
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    written = [tmp_path / "grades", *(tmp_path / "grades").rglob("*")]
    modes = {x: stat.S_IMODE(x.stat().st_mode) for x in written}
    assert len(modes) > 10
    assert not [x for x, mode in modes.items() if mode & 0o022]
    assert umask == 0 or not [x for x, mode in modes.items() if mode & 0o077]
