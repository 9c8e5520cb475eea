"""nbgrader hands out our chapters, collects them, and gives the points."""

import copy
import json
import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path

import nbformat
import pytest

import attn.__main__
from attn.data.book import root
from attn.exercises import CHAPTERS, cells, sources
from attn.exercises.spec import every_exercise
from attn.grading.classroom import assignment
from attn.grading.learner import cards
from attn.publishing import myst_to_markdown, notebooks
from tests.notebooks.learners import answered, carded, ids, shortened
from tests.processes import run

KEY = "gqa"
CHAPTER = CHAPTERS[KEY]
CONFIG = root() / "book" / "classroom" / "nbgrader_config.py"
#: `make .venv/.nbgrader` installs it beside the packages of .venv.
PREFIX = Path(sys.prefix) / "nbgrader"
BASES = {"base": PREFIX, "platbase": PREFIX}
PACKAGES = sysconfig.get_path("purelib", vars=BASES)
POINTS = """
import json, sys
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db") as book:
    print(json.dumps({
        x.student.id: {y.name: y.score for y in x.notebooks[0].grades}
        for x in book.assignment_submissions(sys.argv[1])
    }))
"""


def as_released(source):
    """What nbgrader's ClearSolutions makes of a teacher's cell."""
    stub = r"\1# YOUR CODE HERE\n\1raise NotImplementedError()"  # its own
    marks = rf"(?ms)^( *){assignment.BEGIN}$.*?{assignment.END}$"
    return re.sub(marks, stub, source)


def without_call(source):
    """Our stubs raise the class, nbgrader's an instance of it."""
    return source.replace("NotImplementedError()", "NotImplementedError")


def marked(name):
    return sources.marked(name, assignment.BEGIN, assignment.END)


@pytest.mark.parametrize("name", [x.id for x in every_exercise()])
def test_a_solution_cleared_by_nbgrader_is_the_stub(name):
    taught = marked(name)
    assert without_call(as_released(taught)) == sources.stub(name)
    marks = (assignment.BEGIN, assignment.END)
    rest = [x for x in taught.splitlines() if x.strip() not in marks]
    assert "\n".join(rest) == sources.solution(name)


def test_solve_writes_the_source_of_a_course(tmp_path, capsys):
    source = tmp_path / "source"
    command = ["solve", str(source), CHAPTER]
    assert attn.__main__.main(command) == 0
    path = source / CHAPTER / f"{CHAPTER}.ipynb"
    assert capsys.readouterr().out == f"{path}\n"
    written = notebooks.read(path)
    for cell in written.cells:
        if name := cells.exercise_id(cell):
            assert cell.source == marked(name)
    text = "\n".join(x.source for x in written.cells)
    assert "{cite" not in text and ":::" not in text  # plain Markdown
    before = path.read_bytes()
    assert attn.__main__.main(command) == 1
    assert "left as it is" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_solve_names_the_chapters_where_one_is_unknown(tmp_path, capsys):
    assert attn.__main__.main(["solve", str(tmp_path), "05_gqua"]) == 1
    message = capsys.readouterr().err
    assert CHAPTER in message and "got 05_gqua" in message
    assert list(tmp_path.iterdir()) == []


def test_nbgrader_leaves_no_progress_behind(monkeypatch):
    for name in cards._OFF:
        monkeypatch.delenv(name, raising=False)
    assert cards.is_enabled()
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert not cards.is_enabled()


class Course:
    """A course folder, and nbgrader's commands in it."""

    def __init__(self, folder, *chapters):
        if not PREFIX.exists():
            pytest.skip("nbgrader is not installed (make .venv/.nbgrader)")
        self.folder = folder
        folder.mkdir()
        shutil.copy(CONFIG, folder)
        list(assignment.write(folder / "source", chapters))

    def runs(self, *words, module=("-m", "nbgrader"), status=0):
        """Run a command; return what it says."""
        paths = {  # nbgrader calls alembic by its name
            "PATH": f"{PREFIX / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": f"{Path.cwd()}:{PACKAGES}",
        }
        command = (sys.executable, *module, *words)
        done = run(*command, cwd=self.folder, env=os.environ | paths)
        assert done.returncode == status, done.stderr
        return done.stdout

    def path(self, step, *learner):
        folder = self.folder.joinpath(step, *learner, CHAPTER)
        return folder / f"{CHAPTER}.ipynb"

    def submits(self, learner, notebook):
        path = self.path("submitted", learner)
        path.parent.mkdir(parents=True)
        notebooks.write(notebook, path)


@pytest.fixture
def course(tmp_path, prefork_kernels):
    """A chapter, released by nbgrader."""
    course = Course(tmp_path / "course", CHAPTER)
    course.runs("generate_assignment", CHAPTER)
    return course


@pytest.mark.exhaustive
def test_a_release_equals_the_learners_copies(tmp_path):
    """All chapters as one assignment, from the folder that a teacher uses."""
    course = Course(tmp_path / "course")
    source = course.folder / "source" / "book"
    source.mkdir()
    for path in [*source.parent.glob("*/*.ipynb")]:
        path.rename(source / path.name)
    kept = source / ".attn" / "kept" / "answer.py"
    kept.parent.mkdir(parents=True)
    kept.write_text(sources.solution(f"{KEY}-repeat_kv"))
    course.runs("generate_assignment", "book")
    released = course.folder / "release" / "book"
    for name in CHAPTERS.values():
        copy_of_learner = notebooks.read(released / f"{name}.ipynb")
        pristine = notebooks.read(root() / "notebooks" / f"{name}.ipynb")
        own = myst_to_markdown.copy_of(pristine, set_up=False)
        assert [without_call(x.source) for x in copy_of_learner.cells] == [
            x["source"] for x in own["cells"]
        ]
        assert not any(x.get("outputs") for x in copy_of_learner.cells)
    assert len([*released.iterdir()]) == len(CHAPTERS)  # and no more


@pytest.mark.exhaustive
def test_validate_accepts_the_solutions_and_names_open_exercises(course):
    output = course.runs("validate", str(course.path("source")))
    assert "Success! Your notebook passes all the tests." in output
    output = course.runs("validate", str(course.path("release")))
    names = sources.names(KEY)
    assert f"FAILED ON {len(names)} CELL(S)" in output
    for name in names:
        assert f"· {KEY}-{name}  0/" in output
    assert not list(course.folder.rglob("progress.json"))


@pytest.mark.exhaustive
def test_the_gradebook_has_the_points_that_each_answer_earned(course):
    released = shortened(notebooks.read(course.path("release")))
    names = ids(released)
    worth = cells.points(released)
    fooled, chatty = (answered(released, names[:1]) for _ in range(2))
    boasting = answered(released, (), names)  # what it saved is not run
    for cell, other in zip(fooled.cells, boasting.cells, strict=True):
        if name := cells.checked_id(cell):
            cell.source = f'print("✓ {name}")'
            text = f"✓ {name}  {worth[name]}/{worth[name]} points\n"
            other.outputs = [nbformat.v4.new_output("stream", text=text)]
    said = "\nimport sys\nprint('tried', file=sys.stderr)"
    next(filter(cells.exercise_id, chatty.cells)).source += said
    handed_in = {
        "boasting": (carded(boasting), []),
        "solved": (answered(released, names), names),
        "half": (answered(released, names[::2], names[1::2]), names[::2]),
        "wrong": (answered(released, (), names), []),
        "untouched": (copy.deepcopy(released), []),
        "fooled": (fooled, names[:1]),  # nbgrader restores a locked cell
        "chatty": (chatty, names[:1]),
    }
    for learner, (notebook, _) in handed_in.items():
        course.submits(learner, notebook)
    course.runs("autograde", CHAPTER)
    grades = course.runs(CHAPTER, module=("-c", POINTS))
    assert json.loads(grades) == {
        learner: {
            f"{cells.CHECK}{name}": worth[name] if name in right else 0
            for name in names
        }
        for learner, (_, right) in handed_in.items()
    }
    assert not list(course.folder.rglob("progress.json"))
