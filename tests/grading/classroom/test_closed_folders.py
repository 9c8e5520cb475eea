"""No file of the current folder runs in a grader, whatever its name."""

import csv
import os
import subprocess
import sys

import pytest

from attn.data.book import root
from attn.exercises import sources
from attn.grading.classroom import closed_folders
from attn.grading.sandbox import isolation

#: As an installer writes it; the package is beside it.
SCRIPT = f"""#!{sys.executable}
import re
import sys
from attn.__main__ import main
if __name__ == "__main__":
    sys.argv[0] = re.sub(r"(-script.pyw|.exe)?$", "", sys.argv[0])
    sys.exit(main())
"""
#: What Python imports, or looks for, before the grader begins.
EARLY = """
import sys
looked_for = set(sys.modules)
class Finder:
    def find_spec(name, *_):
        looked_for.add(name)
sys.meta_path.insert(0, Finder)
import re, runpy
import attn.__main__
import attn.grading.classroom.closed_folders
try:
    attn.__main__.main(["grade", "--help"])  # the parser imports late
except SystemExit:
    print()
print(*{x.partition(".")[0] for x in looked_for})
"""
OTHERS = str.split(
    "IPython __init__ __main__ attn book conftest distributed jinja2 jupytext "
    "matplotlib nbformat numpy platformdirs psutil rich safetensors "
    "sitecustomize solutions tests torch transformers triton usercustomize"
)
NAMES = sorted({*filter(str.isidentifier, sys.stdlib_module_names), *OTHERS})
FILES = {
    ".env": "PYTHONPATH=.",
    ".jupytext.toml": "formats = 3",
    "jupytext.toml": "formats = 3",
    "matplotlibrc": "backend: module://antigravity",
    "pytest.ini": "[pytest]\naddopts = -p antigravity",
    "python._pth": ".\nimport site",
    "pyvenv.cfg": "home = /nonexistent",
    "setup.cfg": "[tool:pytest]\naddopts = -p antigravity",
}
RIGHT = "why-causal_average"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A program beside its package, and a folder to be in."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "attn").symlink_to(root() / "attn")
    (programs / "script").write_text(SCRIPT)
    (programs / "script").chmod(0o755)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


def plant(place, *, but=()):
    """Write hostile files, and one right answer; each notes that it ran."""
    ran = place / "ran"
    ran.mkdir()
    here = place / "here"
    for name in set(NAMES) - {*but}:
        text = f"open({str(ran / name)!r}, 'a').write('x')\n"
        (here / f"{name}.py").write_text(text)
    (here / "a.pth").write_text(f"import os; os.mkdir({str(ran / 'pth')!r})")
    for name, text in FILES.items():
        (here / name).write_text(text)
    for name in ("bwrap", "unshare", "sh", "mount", "true"):
        (here / name).write_text(f"#!/bin/sh\ntouch {ran / name}\n")
        (here / name).chmod(0o755)
    (here / "ann_01_why_attention.py").write_text(sources.solution(RIGHT))


def graded(place, command, **environment):
    """Grade the current folder; return what is said, and ann's points."""
    out = place / "out"
    words = [*map(str, command), "grade", ".", "--out", str(out)]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    table = (out / "class.csv").read_text("utf-8-sig").splitlines()
    rows = {x["learner"]: x for x in csv.DictReader(table)}
    assert len(rows) > 250
    assert {path.name for path in (place / "ran").iterdir()} == set()
    return done, rows["ann_01_why_attention"][RIGHT]


def early(place):
    """Return the names that Python looks for before the grader begins."""
    words = [sys.executable, "-c", EARLY]
    env = os.environ | {"PYTHONPATH": str(place / "programs")}
    found = subprocess.run(words, capture_output=True, env=env, check=True)
    names = found.stdout.decode().splitlines()[-1].split()
    return {*names, "sitecustomize", "usercustomize"}


@pytest.mark.parametrize(
    "way",
    [
        "limits",
        pytest.param("namespaces", marks=pytest.mark.exhaustive),
        pytest.param("bubblewrap", marks=pytest.mark.exhaustive),
    ],
)
def test_no_file_of_the_current_folder_runs(place, way):
    if way != "limits" and not isolation._works(way):
        pytest.skip(f"{way}: not on this machine")
    plant(place)
    path = os.pathsep.join([".", "", os.environ["PATH"]])
    done, points = graded(
        place,
        [place / "programs" / "script"],
        ATTN_ISOLATION=way,
        PATH=path,
        PYTHONPATH="",
    )
    assert points == "1"
    assert "Python has" not in done.stderr
    assert f"isolation: {way}" in done.stdout


@pytest.mark.parametrize(
    "start",
    ["-m", pytest.param("PYTHONPATH", marks=pytest.mark.exhaustive)],
)
def test_where_python_looks_there_first_it_stops_and_a_line_says_so(
    place, start
):
    """What Python imports before the grader begins is out of its reach."""
    plant(place, but=early(place))
    command = [place / "programs" / "script"]
    path = os.pathsep.join(["", "."])
    if start == "-m":
        command = [sys.executable, "-m", "attn"]
        path = str(place / "programs")
    done, points = graded(place, command, PYTHONPATH=path)
    assert points == "1"
    assert "Type `attn grade" in done.stderr
    assert done.stderr.count("Python has imported from") == 1


def test_the_folders_of_submissions_are_closed_and_opened_again(
    tmp_path, monkeypatch
):
    folder, file = tmp_path / "a", tmp_path / "b" / "x.py"
    for path in (folder, file.parent, tmp_path / "c"):
        path.mkdir()
    file.touch()
    places = [str(tmp_path / x) for x in "abc"]
    monkeypatch.setattr(sys, "path", [*places, *sys.path])
    monkeypatch.setenv("PATH", os.pathsep.join([*places, "", ".", "/usr/bin"]))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    path, environment = sys.path[:], dict(os.environ)
    with closed_folders.nothing_runs_from([folder, file]) as warning:
        assert [x for x in places if x in sys.path] == places[2:]
        left = os.environ["PATH"].split(os.pathsep)
        assert left == [places[2], "/usr/bin"]
        assert os.environ["PYTHONSAFEPATH"] == "1"
        assert "PYTHONPATH" not in os.environ
        assert places[0] in warning
    assert (sys.path, dict(os.environ)) == (path, environment)


def test_a_copy_of_the_book_that_is_not_installed_finds_itself(monkeypatch):
    monkeypatch.chdir(root())
    monkeypatch.setattr(sys, "path", [str(root()), *sys.path])
    with closed_folders.nothing_runs_from([]) as warning:
        assert sys.path.index(str(root())) == len(sys.path) - 1
        assert warning == ""
