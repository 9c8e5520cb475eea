"""The committed notebooks agree with solutions/, and are fit to be read."""

import copy
import re

import pytest

from attn import grading
from attn.exercises import CHAPTERS, cells, sources
from attn.exercises.spec import chapter
from attn.publishing import notebooks
from tests.notebooks.learners import places_named

pytestmark = pytest.mark.parametrize("key", CHAPTERS, scope="module")


@pytest.fixture(scope="module")
def notebook(key):
    """A chapter, read once: a test changes a copy of it."""
    return notebooks.read(sources.notebook_path(key))


def test_a_chapter_has_not_drifted_from_its_sources(key, notebook):
    assert list(notebooks.drift(sources.notebook_path(key))) == []


def test_every_exercise_of_the_chapter_is_there_in_order(key, notebook):
    ids = [n for c in notebook.cells if (n := cells.exercise_id(c))]
    assert ids == [exercise.id for exercise in chapter(key)]


def test_points_are_those_of_the_specs(key, notebook):
    worth = {x.id: x.points for x in chapter(key)}
    for cell in notebook.cells:
        if name := cells.checked_id(cell):
            assert cell.metadata["nbgrader"]["points"] == worth[name]


def test_nbgraders_metadata_is_complete(key, notebook):
    ids = []
    for cell in notebook.cells:
        about = cell.metadata.get("nbgrader")
        if about is None:
            continue
        ids.append(about["grade_id"])
        assert about["schema_version"] == 3
        wants = {"grade", "solution", "locked", "task"}
        assert wants <= set(about)
        assert about["locked"] == about["grade"] != about["solution"]
    assert len(set(ids)) == len(ids)


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


def test_long_code_is_folded_with_a_label_unless_the_text_teaches_it(
    key, notebook
):
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
    """All but ``start``, which is for the start notebook."""
    names = ", ".join(x for x in grading.__all__ if x != "start")
    (cell,) = (x for x in notebook.cells if "attn.grading" in x.source)
    assert f"from attn.grading import {names}\n" in cell.source + "\n"


def test_no_line_of_a_chapter_is_wider_than_79_characters(key, notebook):
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert max(map(len, cell.source.splitlines()), default=0) <= 79
            for output in cell.outputs:
                printed = output.get("text", "")
                assert max(map(len, printed.splitlines()), default=0) <= 79
                drawn = re.search(r"[\u2500-\u257f]|^.*\{'.*':", printed, re.M)
                assert not drawn, "a table is a plot.Table: " + drawn[0]


def test_no_cell_ran_into_stderr_or_an_unmarked_error(key, notebook):
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                assert "raises-exception" in tags, cell.source
            assert output.get("name") != "stderr", cell.source


def test_no_output_names_a_path_of_a_machine(key, notebook):
    """A traceback does, unless the chapter asks for %xmode Minimal."""
    assert not places_named(notebook)


def test_drift_detects_a_changed_stub(key, notebook, tmp_path, monkeypatch):
    """The proof that drift can be seen."""
    path = tmp_path / "changed.ipynb"
    changed = copy.deepcopy(notebook)
    cell = next(c for c in changed.cells if cells.exercise_id(c))
    cell.source = cell.source.replace("def ", "def other_", 1)
    notebooks.write(changed, path)
    assert any("the stub" in line for line in notebooks.drift(path))


def test_refresh_refuses_to_overwrite_a_learners_work(key, notebook, tmp_path):
    path = tmp_path / sources.notebook_path(key).name
    mine = copy.deepcopy(notebook)
    cell = next(c for c in mine.cells if cells.exercise_id(c))
    cell.source = cell.source.replace("raise NotImplementedError", "return 1")
    notebooks.write(mine, path)
    before = path.read_bytes()
    with pytest.raises(notebooks.Edited, match=cells.exercise_id(cell)):
        notebooks.refresh(path)
    assert path.read_bytes() == before


def test_refresh_renews_a_stub_whose_task_has_changed(key, notebook, tmp_path):
    """An old stub that nobody has touched is no learner's work."""
    old = copy.deepcopy(notebook)
    cell = next(c for c in old.cells if cells.exercise_id(c))
    cell.source = cell.source.replace('"""', '"""Once upon a time. ', 1)
    cell.metadata["attn"] = {"stub": notebooks.digest(cell.source)}
    assert notebooks.edited_stubs(old) == []
