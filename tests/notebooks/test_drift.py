"""The committed notebooks agree with solutions/, and are fit to be read."""

import copy
import re

import pytest

from attn import grading
from attn.exercises import CHAPTERS, cells, sources
from attn.exercises.spec import chapter
from attn.publishing import notebooks
from tests.notebooks.learners import flaws, ids

pytestmark = pytest.mark.parametrize("key", CHAPTERS, scope="module")


@pytest.fixture(scope="module")
def notebook(key):
    """A chapter, read once: a test changes a copy of it."""
    return notebooks.read(sources.notebook_path(key))


def test_a_chapter_has_not_drifted_from_its_sources(key, notebook):
    assert list(notebooks.drift(sources.notebook_path(key))) == []


def test_exercises_are_in_order_with_the_points_of_the_specs(key, notebook):
    worth = {x.id: x.points for x in chapter(key)}
    assert ids(notebook) == [*worth]
    assert cells.points(notebook) == worth


def test_nbgraders_metadata_is_complete(key, notebook):
    every = [cell.metadata.get("nbgrader") for cell in notebook.cells]
    every = [about for about in every if about is not None]
    for about in every:
        assert about["schema_version"] == 3
        assert {"grade", "solution", "locked", "task"} <= set(about)
        assert about["locked"] == about["grade"] != about["solution"]
    assert len({x["grade_id"] for x in every}) == len(every)


def test_every_figure_has_alt_text_and_a_caption(key, notebook):
    figures = 0
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        if any("image/png" in o.get("data", {}) for o in outputs):
            figures += 1
            about = cell.metadata.get("mystnb", {})
            assert len(about.get("image", {}).get("alt", "")) > 20, cell.source
            assert len(about.get("figure", {}).get("caption", "")) > 20
    assert figures >= 5


MOST_LINES = {True: 10, False: 20}  # of an open cell: with a figure, without


def test_long_code_is_folded_with_a_label_unless_it_is_taught(key, notebook):
    folded = 0
    for cell in notebook.cells:
        if cell.cell_type != "code" or cell.metadata.get("nbgrader"):
            continue
        about = cell.metadata.get("mystnb", {})
        tags = set(cell.metadata.get("tags", []))
        if "hide-input" in tags:
            label = about.get("code_prompt_show", "")
            named = label.startswith(("Code of this ", "Imports"))
            assert "figure" in about or named
            assert "taught" not in tags
            folded += 1
        elif not tags & {"taught", "remove-cell"}:
            most = MOST_LINES["figure" in about]
            assert len(cell.source.splitlines()) <= most, cell.source
    assert folded


def test_a_chapter_imports_every_function_of_the_grader(key, notebook):
    """All but ``start``, of the start notebook, and what a refusal gives."""
    others = ("case", "start")
    names = ", ".join(x for x in grading.__all__ if x not in others)
    (cell,) = (x for x in notebook.cells if "attn.grading" in x.source)
    assert f"from attn.grading import {names}\n" in cell.source + "\n"


def test_a_chapter_is_fit_to_be_read_and_prints_no_wide_line(key, notebook):
    assert list(flaws(notebook)) == []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            printed = output.get("text", "")
            assert max(map(len, printed.splitlines()), default=0) <= 79
            drawn = re.search(r"[\u2500-\u257f]|^.*\{'.*':", printed, re.M)
            assert not drawn, "a table is a plot.Table: " + drawn[0]


def changed(notebook, old, new):
    """A copy whose first exercise is changed, and that exercise's cell."""
    copied = copy.deepcopy(notebook)
    cell = next(c for c in copied.cells if cells.exercise_id(c))
    cell.source = cell.source.replace(old, new, 1)
    return copied, cell


def test_drift_detects_a_changed_stub(key, notebook, tmp_path):
    """The proof that drift can be seen."""
    path = tmp_path / "changed.ipynb"
    notebooks.write(changed(notebook, "def ", "def other_")[0], path)
    assert any("the stub" in line for line in notebooks.drift(path))


def test_refresh_refuses_to_overwrite_a_learners_work(key, notebook, tmp_path):
    path = tmp_path / sources.notebook_path(key).name
    mine, cell = changed(notebook, "raise NotImplementedError", "return 1")
    notebooks.write(mine, path)
    before = path.read_bytes()
    with pytest.raises(notebooks.Edited, match=cells.exercise_id(cell)):
        notebooks.refresh(path)
    assert path.read_bytes() == before


def test_refresh_renews_a_stub_whose_task_has_changed(key, notebook):
    """An old stub that nobody has touched is no learner's work."""
    old, cell = changed(notebook, '"""', '"""Once upon a time. ')
    cell.metadata["attn"] = {"stub": notebooks.digest(cell.source)}
    assert notebooks.edited_stubs(old) == []
