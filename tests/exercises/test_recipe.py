"""CONTRIBUTING's recipe: a new exercise is four files, and nothing else."""

import json
import os
import shutil
from pathlib import Path

import pytest

from attn.exercises import sources
from attn.exercises.cells import checked_id, exercise_id
from attn.exercises.spec import chapter, find
from tests.processes import run_python

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = "solutions/ch02_scaled_dot_product.py"
NOTEBOOK = "notebooks/02_scaled_dot_product.ipynb"
#: An exercise of chapter 1, which becomes one of chapter 2, too.
OLD, NEW = "why-causal_average", "sdp-causal_average"
RUN = """
import json, sys
from pathlib import Path
import pytest
from attn.exercises import sources
from attn.exercises.spec import chapter
from attn.exercises.kill_rate import state_kill_rate
last = chapter("sdp")[-1]
facts = {
    "ids": [x.id for x in chapter("sdp")],
    "stub": sources.stub(last.id),
    "hints": sources.hints(last.id),
    "mistakes": [x.name for x in last.mistakes],
    "equivalents": [x.name for x in last.equivalents],
}
Path("facts.json").write_text(json.dumps(facts))
state_kill_rate(Path("README.md"))
sys.exit(pytest.main(sys.argv[1:]))
"""
OF_CHAPTER = "sdp and (drifted or in_order or nbgrader)"
TESTS = f"{NEW} or readme or point_applies or ({OF_CHAPTER})"


@pytest.fixture
def copy(tmp_path):
    """Copy the repository, as far as exercises reach."""
    folders = ("attn", "book/figures", "notebooks", "solutions", "tests")
    for name in folders:
        shutil.copytree(
            ROOT / name,
            tmp_path / name,
            ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"),
        )
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def add_cells(path):
    """Append the stub and its check, as `make refresh` stores them."""
    old = [x for x in sources.notebook("why")["cells"] if OLD in names(x)]
    notebook = json.loads(path.read_text("utf-8"))
    notebook["cells"] += json.loads(json.dumps(old).replace(OLD, NEW))
    path.write_text(json.dumps(notebook), "utf-8")


def names(cell):
    return exercise_id(cell), checked_id(cell)


def test_four_files_make_an_exercise(copy):
    with (copy / SOLUTIONS).open("a") as file:
        file.write(f"\n\n{sources.solution(OLD)}\n")
    folder = copy / "attn" / "exercises"
    for ending in ("py", "md"):
        text = (folder / f"why/causal_average.{ending}").read_text("utf-8")
        new = folder / f"sdp/causal_average.{ending}"
        new.write_text(text.replace(OLD, NEW), "utf-8")
    add_cells(copy / NOTEBOOK)
    tests = ("tests/exercises", "tests/notebooks/test_drift.py", "-k", TESTS)
    options = ("-q", "-p", "no:cacheprovider", "-m", "not exhaustive")
    env = {**os.environ, "PYTHONPATH": str(copy)}
    done = run_python(RUN, *options, *tests, cwd=copy, env=env)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    old = find(OLD)
    assert json.loads((copy / "facts.json").read_text()) == {
        "ids": [*(x.id for x in chapter("sdp")), NEW],
        "stub": sources.stub(OLD),
        "hints": [*sources.hints(OLD)],
        "mistakes": [x.name for x in old.mistakes],
        "equivalents": [x.name for x in old.equivalents],
    }
    assert NEW in done.stdout  # its line of the kill rate
