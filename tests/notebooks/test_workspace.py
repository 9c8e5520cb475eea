"""A learner's copies: made once, kept, and never at the cost of work."""

import json

import nbformat
import pytest
from ipykernel.ipkernel import IPythonKernel

from attn.exercises import sources
from attn.exercises.cells import exercise_id
from attn.grading.learner import cards, start_page, workspace
from attn.publishing import notebooks

ANSWER = "def causal(q_len, kv_len, q_offset=0):\n    return 'mine'"

MASKS = sources.notebook_path("mask")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A learner's chapter, in a workspace that has no other."""
    monkeypatch.setattr(notebooks, "pristine", lambda: [MASKS])
    workspace.fill(tmp_path)
    return tmp_path / MASKS.name


@pytest.fixture
def start(own):
    return own.with_name(start_page.NAME)


@pytest.fixture
def edition(monkeypatch):
    """The book's next edition: one sentence more."""

    read = notebooks.read

    def newer(path):
        notebook = read(path)
        if path == MASKS:
            notebook.cells[-1].source += "\n\nA new sentence."
        return notebook

    return lambda: monkeypatch.setattr(notebooks, "read", newer)


def edit(path, change):
    notebook = notebooks.read(path)
    for cell in notebook.cells:
        change(cell)
    notebooks.write(notebook, path)
    return path.read_bytes()


def note(cell):
    if cell.source.startswith("# 3 · Masks"):
        cell.source += "\n\nRead this again!"


def answer(cell):
    if exercise_id(cell) == "mask-causal":
        cell.source = ANSWER
    if "open-task" in cell.metadata.get("tags", []):
        cell.source += "\n# and my idea"


def line_of(own):
    """What is said of a notebook when lab starts again."""
    lines = dict(x.split(": ", 1) for x in workspace.fill(own.parent))
    return lines[own.name]


def text(path):
    return "\n".join(x.source for x in notebooks.read(path).cells)


def test_a_copy_is_left_alone_while_the_book_stays_as_it_is(own):
    mine = edit(own, answer)
    assert line_of(own) == "yours, left as it is"
    assert own.read_bytes() == mine
    others = {start_page.NAME, "glossary.md"}
    assert {x.name for x in own.parent.glob("*.*")} == {own.name, *others}


@pytest.mark.parametrize("work", [answer, note])
def test_a_newer_chapter_comes_beside_the_work_with_the_answers_in_it(
    own, edition, work
):
    mine = edit(own, work)
    newer = own.with_name(f"{own.stem}-newer.ipynb")
    edition()
    assert newer.name in line_of(own)
    assert own.read_bytes() == mine
    assert "A new sentence." not in text(own)
    assert "A new sentence." in text(newer)
    answers = [x in text(newer) for x in (ANSWER, "# and my idea")]
    assert answers == [work is answer] * 2
    stub = "raise NotImplementedError"
    assert text(newer).count(stub) == text(own).count(stub)
    # And work in the newer copy is left alone too.
    mine = edit(newer, lambda cell: cell.update(source=cell.source + " "))
    line_of(own)
    assert newer.read_bytes() == mine


def test_a_copy_without_work_is_made_again(own, edition):
    edition()
    assert line_of(own).startswith("a newer version, copied")
    assert "A new sentence." in text(own)
    assert line_of(own) == "yours, left as it is"


def test_the_glossary_is_renewed_unless_a_learner_changed_it(own, monkeypatch):
    glossary = own.with_name("glossary.md")
    first = glossary.read_text()
    assert line_of(glossary) == "yours, left as it is"
    newer = first.replace("# Glossary", "# All the words")
    monkeypatch.setattr(workspace.myst_to_markdown, "glossary", lambda: newer)
    assert line_of(glossary).startswith("a newer version, copied")
    assert glossary.read_text().startswith("# All the words")
    monkeypatch.undo()
    glossary.write_text("mine\n" + glossary.read_text())
    assert line_of(glossary) == "yours, left as it is"
    assert glossary.read_text().startswith("mine\n# All")


def test_to_open_a_copy_changes_nothing_in_it(own, start):
    """Of what JupyterLab notes in a notebook, all is there."""
    for path in (own, start):
        metadata = notebooks.read(path).metadata
        assert metadata.language_info == IPythonKernel.language_info
        assert metadata.kernelspec.name == "python3"
        assert metadata.kernelspec.language == "python"


def test_a_chapter_ends_with_the_way_on_and_to_the_start_page(own):
    assert text(own).splitlines()[-1] == (
        "Next: [4 · Multi-head attention](04_multi_head.ipynb) | "
        "[Start page](00_start.ipynb)"
    )


def test_what_does_not_open_is_left_alone(own, start):
    for path in (own, start):
        path.write_text("{ half a noteb")
        assert "does not open as a notebook" in line_of(path)
        assert path.read_text() == "{ half a noteb"


def passed(own, exercise_id):
    """Store that an exercise is done, as a check does."""
    store = own.parent / ".attn" / "progress.json"
    store.parent.mkdir(exist_ok=True)
    store.write_text(json.dumps({exercise_id: {"passed": "2026-11-22"}}))


def shown(start):
    """Return the page that is below the cell of the start notebook."""
    [cell] = [x for x in notebooks.read(start).cells if x.id == "start"]
    return cell.outputs[0]["data"]["text/html"]


def test_the_start_notebook_comes_first_and_is_no_chapter(own, start):
    assert min(own.parent.glob("*.ipynb")) == start
    assert start.stem not in {path.stem for path in notebooks.pristine()}
    nbformat.validate(notebooks.read(start))
    cells = notebooks.read(start).cells
    assert not any(map(exercise_id, cells))
    [page] = [x for x in cells if x.cell_type == "code"]
    assert page.metadata.tags == ["nbval-skip"]
    assert "# Ctrl+Enter: bring it up to date" in page.source


def test_each_start_of_lab_renews_the_page_beside_a_learners_notes(own, start):
    notebook = notebooks.read(start)
    notebook.cells.append(nbformat.v4.new_markdown_cell("My plan."))
    notebooks.write(notebook, start)
    line_of(start)
    mine = start.read_bytes()
    assert "0 of 13 points" in shown(start)
    line_of(start)
    assert start.read_bytes() == mine  # nothing is new: nothing is written
    passed(own, "mask-causal")
    assert line_of(start).endswith("brought up to date")
    assert "1 of 13 points" in shown(start)
    assert text(start).endswith("My plan.")


def test_a_learner_may_remove_the_page_and_is_not_given_it_again(own, start):
    notebook = notebooks.read(start)
    notebook.cells = [x for x in notebook.cells if x.id != "start"]
    notebooks.write(notebook, start)
    mine = start.read_bytes()
    passed(own, "mask-causal")
    workspace.fill(own.parent)
    assert start.read_bytes() == mine


def signed(*paths):
    return [workspace._is_signed(notebooks.read(path)) for path in paths]


def test_only_what_attn_wrote_is_signed(own, start, monkeypatch):
    """JupyterLab would run the scripts in what is signed; not in a test."""
    assert signed(own, start) == [False, False]
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(own.parent / "signatures"))
    monkeypatch.setattr(cards, "is_enabled", lambda: True)
    monkeypatch.setattr(workspace, "_notary", workspace._notary.__wrapped__)
    for path in (own, start):
        path.unlink()
    workspace.fill(own.parent)
    assert signed(own, start) == [True, True]
    passed(own, "mask-causal")
    workspace.fill(own.parent)
    assert signed(start) == [True]
    for path in (own, start):
        foreign = notebooks.read(path)
        foreign.cells.append(nbformat.v4.new_code_cell("of somebody else"))
        notebooks.write(foreign, path)
    passed(own, "mask-padding")
    workspace.fill(own.parent)
    assert signed(own, start) == [False, False]
