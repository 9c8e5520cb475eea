"""Gradescope's two scripts, in a folder in place of ``/autograder``."""

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from attn.data.book import root
from attn.exercises import cells
from attn.publishing import notebooks
from tests.attn.test_workflows import TARGETS
from tests.notebooks.learners import answered, ids, short
from tests.processes import run

ROOT = root()
SCRIPTS = ROOT / "book" / "classroom" / "gradescope"
#: Commands that write down how they were called, and do nothing.
RECORDS = '#!/bin/sh\necho "$(basename "$0") $*" >> "$CALLS"\n'
OLD = RECORDS + "exit 1\n"  # a Python of before 3.11
#: A grader: what it finds goes into its mark.
GRADES = """#!/bin/sh
mkdir "$4" && (cd "$2" && echo "[\\"$(find . -type f)\\"]") > "$4/results.json"
"""


def command(folder, name, text):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("python3", "chosen"), [(RECORDS, "python3"), (OLD, "python3.11")]
)
def test_setup_installs_python_and_makes_a_target(python3, chosen, tmp_path):
    source, commands = tmp_path / "source", tmp_path / "bin"
    source.mkdir()
    for name in ("apt-get", "make"):
        command(commands, name, RECORDS)
    command(commands, "python3", python3)
    calls = tmp_path / "calls"
    places = {"AUTOGRADER": str(tmp_path), "CALLS": str(calls)}
    places["PATH"] = f"{commands}:{os.environ['PATH']}"
    run(SCRIPTS / "setup.sh", env=places, check=True)
    *_, packages, made = calls.read_text().splitlines()
    assert packages.endswith(f"bubblewrap make {chosen} {chosen}-venv")
    assert made.split()[1] in TARGETS
    assert "PIP_ARGS=--extra-index-url https://" in made


def grade(folder, attn):
    """Run what Gradescope runs; return the mark that it reads."""
    (folder / "results").mkdir()
    places = {"AUTOGRADER": str(folder), "PYTHONPATH": str(Path.cwd())}
    places["ATTN"] = str(command(folder, "attn", attn))
    run(SCRIPTS / "run_autograder", env=os.environ | places, check=True)
    return json.loads((folder / "results" / "results.json").read_text("utf-8"))


def test_all_files_of_a_submission_belong_to_one_learner(tmp_path):
    command(tmp_path / "submission", "05 gqa.ipynb", "{}")
    assert grade(tmp_path, GRADES) == ["./learner/05 gqa.ipynb"]


def test_a_failed_grader_gives_a_mark_with_an_explanation(tmp_path):
    (tmp_path / "submission").mkdir()
    mark = grade(tmp_path, "#!/bin/sh\nexit 1\n")
    assert mark["score"] == 0 and "nothing of your answers" in mark["output"]


@pytest.mark.exhaustive
def test_gradescope_reads_the_points_of_each_exercise(tmp_path):
    chapter = short("gqa")
    names, worth = ids(chapter), cells.points(chapter)
    (tmp_path / "submission").mkdir()
    mine = answered(chapter, names[::2], names[1::2])
    notebooks.write(mine, tmp_path / "submission" / "mine.ipynb")
    text = f'#!/bin/sh\nexec "{sys.executable}" -m attn "$@"\n'
    mark = grade(tmp_path, text)
    points = {name: worth[name] * (name in names[::2]) for name in names}
    assert {x["name"]: x["score"] for x in mark["tests"]} == points
    assert {x["name"]: x["max_score"] for x in mark["tests"]} == worth
    assert mark["score"] == sum(points.values())


@pytest.mark.skipif(
    not (ROOT / ".git").exists() or not shutil.which("git"),
    reason="git makes the zip, from a clone",
)
def test_the_zip_has_both_scripts_at_its_top_and_the_book():
    run("make", "-s", "gradescope", cwd=ROOT, check=True)
    with zipfile.ZipFile(ROOT / "_build" / "gradescope.zip") as made:
        modes = {x.filename: x.external_attr >> 16 for x in made.infolist()}
    for name in ("setup.sh", "run_autograder"):
        assert modes[name] & 0o111
    assert {"Makefile", "constraints.txt", "attn/api.py"} <= set(modes)
    assert {"notebooks/05_gqa.ipynb", "solutions/ch05_gqa.py"} <= set(modes)
    assert "book/_static/sentence/minilm.data.js" not in modes
