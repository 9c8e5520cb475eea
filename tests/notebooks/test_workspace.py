"""A learner's copies: made once, kept, and never at the cost of work."""

import pytest

from attn.exercises import sources
from attn.exercises.cells import exercise_id
from attn.grading.learner import workspace
from attn.publishing import notebooks

STEM = "03_masks"
ANSWER = "def causal(q_len, kv_len, q_offset=0):\n    return 'mine'"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A learner's chapter, in a workspace that has no other."""
    chapter = [sources.notebook_path("mask")]
    monkeypatch.setattr(notebooks, "pristine", lambda: chapter)
    workspace.fill(tmp_path)
    return tmp_path / f"{STEM}.ipynb"


@pytest.fixture
def edition(monkeypatch):
    """The book's next edition: one sentence more."""

    def appears():
        read = notebooks.read

        def newer(path):
            notebook = read(path)
            if path == sources.notebook_path("mask"):
                notebook.cells[-1].source += "\n\nA new sentence."
            return notebook

        monkeypatch.setattr(notebooks, "read", newer)

    return appears


def edit(path, change):
    notebook = notebooks.read(path)
    for cell in notebook.cells:
        change(cell)
    notebooks.write(notebook, path)
    return path.read_bytes()


def answer(cell):
    if exercise_id(cell) == "mask-causal":
        cell.source = ANSWER
    if "open-task" in cell.metadata.get("tags", []):
        cell.source += "\n# and my idea"


def told(own):
    lines = dict(x.split(": ", 1) for x in workspace.fill(own.parent))
    return lines[own.name]


def text(path):
    return "\n".join(x.source for x in notebooks.read(path).cells)


def test_a_copy_is_left_alone_while_the_book_stays_as_it_is(own):
    mine = edit(own, answer)
    assert told(own) == "yours, left as it is"
    assert own.read_bytes() == mine
    assert len(list(own.parent.glob("*.ipynb"))) == 2  # and the glossary


def test_a_newer_chapter_comes_beside_the_work_with_the_answers_in_it(
    own, edition
):
    mine = edit(own, answer)
    edition()
    newer = own.with_name(f"{STEM}-newer.ipynb")
    assert newer.name in told(own)
    assert own.read_bytes() == mine
    assert "A new sentence." not in text(own)
    assert "A new sentence." in text(newer)
    assert ANSWER in text(newer) and "# and my idea" in text(newer)
    assert text(newer).count("raise NotImplementedError") == (
        text(own).count("raise NotImplementedError")
    )


def test_work_in_the_newer_copy_is_left_alone_too(own, edition):
    edit(own, answer)
    edition()
    told(own)
    newer = own.with_name(f"{STEM}-newer.ipynb")
    mine = edit(newer, lambda cell: cell.update(source=cell.source + " "))
    told(own)
    assert newer.read_bytes() == mine


def test_a_note_in_the_text_is_work(own, edition):
    def note(cell):
        if cell.source.startswith("# Masks"):
            cell.source += "\n\nRead this again!"

    mine = edit(own, note)
    edition()
    assert "newer" in told(own)
    assert own.read_bytes() == mine


def test_a_copy_without_work_is_made_again(own, edition):
    edition()
    assert told(own).startswith("a newer version, copied")
    assert "A new sentence." in text(own)
    assert told(own) == "yours, left as it is"


def test_what_does_not_open_is_left_alone(own):
    own.write_text("{ half a noteb")
    assert "does not open as a notebook" in told(own)
    assert own.read_text() == "{ half a noteb"
