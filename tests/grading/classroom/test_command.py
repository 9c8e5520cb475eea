"""``attn grade`` and ``attn check``, as they are typed."""

import json
import os
import signal
import stat
import sys
import threading

import pytest

from attn.__main__ import main
from attn.data.book import root
from attn.exercises import sources
from attn.exercises.spec import find
from attn.grading.classroom import command, pools
from attn.grading.sandbox import isolation
from tests.grading.classroom import fakes
from tests.grading.classroom.damage.kinds import FIRST
from tests.processes import run

PROCESSES = pools.processes
RIGHT = sources.solution("why-causal_average")


@pytest.fixture
def attn_grade(tmp_path, monkeypatch, log, capfd):
    """Run the command in a folder of its own; texts are compared only."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pools, "processes", fakes.threads)
    monkeypatch.setattr(command, "PATIENCE", 600.0)

    def call(*words):
        try:
            status = main(["grade", *words])
        except SystemExit as end:  # argparse's
            status = end.code
        return status, *capfd.readouterr()

    return call


def test_a_class_has_a_table_and_reports_and_is_not_graded_twice(
    attn_grade, klass, tmp_path, log
):
    klass("ann", "bo")
    (tmp_path / "in/bo/05_gqa.ipynb").write_text("{")
    (tmp_path / "ps1.csv").write_text(f"{FIRST},40\n")
    words = ["in", "--points", "ps1.csv"]
    status, out, err = attn_grade(*words, "--seed", "5", "--jobs", "2")
    assert (status, err) == (0, "")
    assert "ann" in out and "bo" in out and "seed 5" in out
    assert "isolation: bubblewrap: no network" in out
    made = {x.name for x in (tmp_path / "grades").iterdir()}
    assert {"batch.json", "results", "class.csv", "marks.csv"} <= made
    table = (tmp_path / "grades/class.csv").read_text()
    assert table.index("ann") < table.index("bo") < table.index("breaks off")
    assert ",40," in table
    assert attn_grade(*words) == (0, out, "")
    assert len(log.read_text().splitlines()) == 2


def test_who_waits_sees_a_line_a_submission_or_a_bar_at_a_terminal(
    attn_grade, klass, monkeypatch
):
    monkeypatch.setattr(command, "PATIENCE", 0.0)
    klass("ann", "bo")
    one, two = attn_grade("in", "--jobs", "1")[2].splitlines()
    assert one.startswith("graded 1 of 2: ") and "/05_gqa.ipynb" in one
    assert two.startswith("graded 2 of 2: ")
    monkeypatch.setenv("FORCE_COLOR", "1")
    err = attn_grade("in", "--jobs", "1")[2]
    assert "grading" in err and "━" in err and "100%" in err
    assert "graded" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "usage: attn grade"),
        (["in", "--seed", "x"], "--seed"),
        (["in", "--isolation", "limits"], "--isolation"),
        (["nowhere"], "nowhere"),
        (["in", "--points", "nowhere.csv"], "nowhere.csv"),
        (["in", "--roster", "nowhere.csv"], "nowhere.csv must be a CSV"),
        (["in", "--column", "Grade"], "--column must come with --roster"),
        (["in", "--out", "log"], "log must be a new folder"),
        (["in", "--out", "in/grades"], "a folder elsewhere with --out"),
        (["in", "--dask", "nowhere"], "dask"),
        (["in", "--jobs", "0"], "--jobs must be 1 or more"),
        (["in", "--timeout", "-1"], "--timeout more than 0; got"),
        (["in", "--timeout", "nan"], "--timeout more than 0; got"),
    ],
)
def test_a_wrong_argument_is_reported_before_anything_is_graded(
    words, message, attn_grade, klass, log
):
    klass("ann")
    status, out, err = attn_grade(*words)
    assert (status, out) == (2, "")
    assert "attn grade: " in err and message in err
    assert log.read_text() == ""


def test_without_bubblewrap_nothing_is_graded_unless_none_is_asked_for(
    attn_grade, klass, log, monkeypatch, tmp_path
):
    klass("ann")
    monkeypatch.setattr(isolation.shutil, "which", lambda _: None)
    own = isolation.complaint.__wrapped__  # of which nothing is kept
    monkeypatch.setattr(isolation, "complaint", own)
    status, out, err = attn_grade("in")
    assert (status, out, log.read_text()) == (2, "", "")
    (line,) = err.splitlines()
    assert "apt install bubblewrap" in line
    assert attn_grade("in", "--isolation", "none")[0] == 0
    kept = json.loads((tmp_path / "grades/batch.json").read_text())
    assert kept["isolation"] == "none"


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


def test_marks_by_hand_outlive_a_second_run_and_cost_no_judging(
    attn_grade, klass, tmp_path, log
):
    klass("ann")
    attn_grade("in")
    path = tmp_path / "grades/marks.csv"
    mine = path.read_text() + f"ann,{FIRST},0.5,oops\n"
    path.write_text(mine)
    for _ in range(2):
        status, out, _ = attn_grade("in")
        assert status == 0 and "oops" in out and "0.5/" in out
        assert path.read_text() == mine
    path.write_text(mine + "ann,gqa-nix,1,\n")
    _, out, _ = attn_grade("in")
    assert "nothing of gqa-nix was judged for ann" in " ".join(out.split())
    path.write_text(mine + "eve,,1,\n")
    status, out, err = attn_grade("in")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert "marks.csv, row 3 must be" in err
    assert len(log.read_text().splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_command_and_keeps_its_results(
    number, attn_grade, klass, tmp_path, log, monkeypatch
):
    monkeypatch.setattr(pools, "processes", PROCESSES)
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
    assert not fakes.are_running(log)


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_no_other_user_can_change_grades(umask, attn_grade, klass, tmp_path):
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


# --- What is in the current folder -------------------------------------------

#: Names that Python, or the grader, imports.
PLANTED = str.split(
    "types signal random struct socket pickle threading multiprocessing attn "
    "IPython jinja2 jupytext nbformat numpy rich safetensors torch solutions"
)


def test_no_file_of_the_current_folder_is_run(tmp_path, monkeypatch):
    """A submission may be called types.py, or sh."""
    here, ran = tmp_path / "here", tmp_path / "ran"
    here.mkdir()
    monkeypatch.chdir(here)
    for name in PLANTED:
        text = f"open({str(ran)!r}, 'a').write({name!r})\n"
        (here / f"{name}.py").write_text(text)
    for name in ("bwrap", "sh", "mount", "true"):
        (here / name).write_text(f"#!/bin/sh\necho {name} >> {ran}\n")
        (here / name).chmod(0o755)
    (here / "ann_01_why_attention.py").write_text(RIGHT)
    path = os.pathsep.join([".", "", str(here), os.environ["PATH"]])
    environment = {"PATH": path, "PYTHONPATH": str(root())}
    words = [sys.executable, "-P", "-m", "attn", "grade", "."]
    words += ["--out", str(tmp_path / "out"), "--jobs", "1"]
    done = run(*words, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    assert not ran.exists(), ran.read_text()
    assert "ann_01" in done.stdout and "✓" in done.stdout


def test_the_folders_of_submissions_are_closed_and_opened_again(
    tmp_path, monkeypatch
):
    closed, other = [tmp_path / "a", tmp_path / "b" / "x.py"], tmp_path / "c"
    for path in (closed[0], closed[1].parent, other):
        path.mkdir()
    closed[1].touch()
    places = [str(tmp_path / x) for x in "abc"]
    monkeypatch.chdir(root())
    monkeypatch.setattr(sys, "path", [*places, str(root()), *sys.path])
    monkeypatch.setenv("PATH", os.pathsep.join([*places, "", ".", "/usr/bin"]))
    monkeypatch.setenv("PYTHONPATH", places[0])
    path, environment = sys.path[:], dict(os.environ)
    with command._nothing_runs_from(closed):
        assert [x for x in places if x in sys.path] == [str(other)]
        assert sys.path.index(str(root())) == len(sys.path) - 1
        assert os.environ["PATH"] == f"{other}{os.pathsep}/usr/bin"
        assert os.environ["PYTHONSAFEPATH"] == "1"
        assert "PYTHONPATH" not in os.environ
    assert (sys.path, dict(os.environ)) == (path, environment)


# --- attn check --------------------------------------------------------------

WRONG = find("why-soft_lookup").mistakes[0]


@pytest.fixture
def file(tmp_path, monkeypatch):
    """One right answer, one wrong, two missing."""
    path = tmp_path / "work" / "mine.py"
    path.parent.mkdir()
    monkeypatch.chdir(path.parent)
    path.write_text(f"import torch\n\n\n{RIGHT}\n\n\n{WRONG.source}\n")
    return path


def test_each_exercise_of_a_file_has_its_verdict_or_those_named(file, capfd):
    right = "✓ why-causal_average  1/1 points\n"
    assert main(["check", str(file), "why-causal_average"]) == 0
    assert capfd.readouterr() == (f"{right}total  1/1 points\n", "")
    assert main(["check", str(file)]) == 1
    out, err = capfd.readouterr()
    assert right in out and out.endswith("\ntotal  1/7 points\n")
    refused = [x.split()[:2] for x in out.splitlines() if x[0] in "✗·"]
    assert refused == [
        ["·", "why-gradient_by_distance"],
        ["·", "why-kernel_regression"],
        ["✗", "why-soft_lookup"],
    ]
    assert WRONG.name in out and not err
    assert [*file.parent.iterdir()] == [file], "nothing is stored"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["mine.py", "sdp-softmax"], "ids must be of the chapter in mine.py"),
        (["mine.py", "why-nix"], "there is no exercise 'why-nix'"),
        (["empty.py"], "empty.py: it is empty"),
        (["nowhere.py"], "nowhere.py: it cannot be opened"),
    ],
)
def test_what_cannot_be_checked_is_named(words, says, file, capfd):
    (file.parent / "empty.py").write_text("")
    assert main(["check", *words]) == 1
    out, err = capfd.readouterr()
    assert says in err and not out
