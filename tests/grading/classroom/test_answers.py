"""Answers are read from whatever file they are in, as text and no more."""

import json

import jupytext
import nbformat
import pytest

from attn.exercises import CHAPTERS, sources
from attn.grading.classroom import reading
from attn.grading.classroom.answers import read
from attn.grading.classroom.magics import without_magics
from attn.grading.classroom.reading import Unreadable
from attn.grading.classroom.submissions import Submission
from attn.publishing import notebooks
from tests.grading.classroom.damage import DAMAGE
from tests.grading.classroom.damage.kinds import (
    EXERCISES,
    FIRST,
    cell_of,
    solved,
)
from tests.grading.classroom.fakes import status_of
from tests.notebooks.learners import carded


def read_file(path):
    return read(Submission(path, path.name, path.stem))


def answers_in(book, tmp_path, name="x.ipynb"):
    path = tmp_path / name
    path.write_text(book if isinstance(book, str) else json.dumps(book))
    return read_file(path)


@pytest.mark.parametrize("name", DAMAGE)
def test_a_broken_file_is_read_as_far_as_possible(name, tmp_path):
    broken = DAMAGE[name]
    path = broken.place(tmp_path, name)
    if broken.message:
        with pytest.raises(Unreadable, match=broken.message):
            read_file(path)
        return
    answers = read_file(path)
    assert answers.key == "gqa"
    expected = dict.fromkeys(EXERCISES, "passed") | broken.status
    status = {x: status_of(x, answers.cells) for x in EXERCISES}
    assert status == expected
    assert answers.notes.keys() == broken.notes.keys()
    for exercise, part in broken.notes.items():
        assert part in " ".join(answers.notes[exercise])
    assert broken.file_note in " ".join(answers.file_notes)
    assert bool(broken.file_note) == bool(answers.file_notes)
    json.dumps([answers.cells, answers.notes, answers.file_notes]).encode()


def test_saved_cards_do_not_change_what_is_read(tmp_path):
    book = notebooks.read(sources.notebook_path("gqa"))
    kept = carded(book)
    assert kept != book
    answers = answers_in(nbformat.writes(kept), tmp_path)
    assert answers == answers_in(nbformat.writes(book), tmp_path)


@pytest.mark.parametrize("suffix", [".docx", ".ODT", ".pages", ".xlsx"])
def test_a_document_of_an_office_is_named_as_one(suffix, tmp_path):
    path = tmp_path / f"mine{suffix}"
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(Unreadable, match=f"it is a {suffix.lower()} file"):
        read_file(path)


def test_there_are_enough_kinds_of_damage():
    assert len([x for x in DAMAGE.values() if x.message]) > 25
    assert len(DAMAGE) > 60


@pytest.mark.parametrize("key", CHAPTERS)
def test_the_exercises_of_a_chapter_are_read_in_order(key):
    answers = read_file(sources.notebook_path(key))
    assert answers.key == key
    assert list(answers.cells) == [f"{key}-{x}" for x in sources.names(key)]
    assert not answers.notes
    for exercise, text in answers.cells.items():
        assert text == sources.stub(exercise)


@pytest.mark.parametrize("key", CHAPTERS)
def test_a_file_of_solutions_can_be_submitted(key):
    path = sources.solutions_path(key)
    answers = read_file(path)
    assert answers.key == key
    assert list(answers.cells) == [f"{key}-{x}" for x in sources.names(key)]
    lines = path.read_text(encoding="utf-8").splitlines()
    for exercise, text in answers.cells.items():
        solution = sources.solution(exercise)
        # At its place in the file, below the imports that it uses.
        above = text[: text.index(solution)].count("\n")
        found = solution.splitlines()
        assert lines[above : above + len(found)] == found
        assert len(text.split()) < len(" ".join(lines).split())


@pytest.mark.parametrize("form", ["py:percent", "py:light", "py:hydrogen"])
def test_an_export_of_jupytext_is_read_as_its_notebook(form, tmp_path):
    path = sources.notebook_path("gqa")
    book = notebooks.solved(notebooks.read(path))
    text = jupytext.writes(book, form)
    answers = answers_in(text, tmp_path, "x.py")
    assert answers.cells == answers_in(nbformat.writes(book), tmp_path).cells
    assert not answers.notes


@pytest.mark.parametrize("comment", ["# cat heads", "# !ls", "# %time x"])
def test_a_comment_like_a_magic_stays_a_comment(comment, tmp_path):
    answer = f"{comment}\n{sources.solution(FIRST)}"
    text = f"# %%\n{answer}\n\n# %%\ncheck('{FIRST}')\n"
    assert answers_in(text, tmp_path, "x.py").cells[FIRST] == answer


def test_an_appendix_without_exercises_is_unreadable():
    with pytest.raises(Unreadable, match="no exercise"):
        read_file(sources.notebook_path("gqa").with_name("museum.ipynb"))


def test_a_file_that_cannot_be_opened_is_unreadable(tmp_path, monkeypatch):
    path = tmp_path / "x.ipynb"
    path.write_text("{}")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(reading.os, "open", refuse)
    with pytest.raises(Unreadable, match="opened: Permission denied"):
        read_file(path)


def test_a_file_replaced_by_a_pipe_does_not_block_the_reader(
    tmp_path, monkeypatch
):
    path = tmp_path / "x.ipynb"
    path.write_text("{}")
    before = reading.os.lstat(path)
    path.unlink()
    reading.os.mkfifo(path)
    monkeypatch.setattr(reading.os, "lstat", lambda _: before)
    with pytest.raises(Unreadable, match="not a file"):
        read_file(path)


def test_a_file_above_the_size_limit_is_unreadable(tmp_path, monkeypatch):
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(solved()))
    size = path.stat().st_size
    monkeypatch.setattr(reading, "LIMIT", size)
    assert len(read_file(path).cells) == 5
    monkeypatch.setattr(reading, "LIMIT", size - 1)
    with pytest.raises(Unreadable, match="Clear its outputs"):
        read_file(path)


def unmarked(names, key):
    cells = [
        {"cell_type": "code", "source": sources.solution(f"{key}-{x}")}
        for x in names
    ]
    return {"nbformat": 4, "cells": cells}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("x.ipynb", "sdp"),
        ("alice-05-GQA.ipynb", "gqa"),
        ("alice/05_gqa/x.ipynb", "gqa"),
        ("03_masks.ipynb", "sdp"),  # it defines nothing of that chapter
    ],
)
def test_the_file_name_gives_the_chapter_of_cells_without_ids(
    name, key, tmp_path
):
    book = unmarked(["softmax", "attention"], "sdp")
    book["cells"] += unmarked(["repeat_kv"], "gqa")["cells"]
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(book))
    assert read(Submission(path, name, "alice")).key == key


def test_cell_ids_give_the_chapter_whatever_the_file_is_called(tmp_path):
    assert answers_in(solved(), tmp_path, "02_sdp.ipynb").key == "gqa"


def test_an_older_stub_is_not_taken_for_an_answer(tmp_path):
    book = solved()
    cell = cell_of(book, FIRST)
    old = "def repeat_kv(x):\n    raise NotImplementedError"
    stub = {"nbgrader": cell["metadata"]["nbgrader"]}
    stub["attn"] = {"stub": notebooks.digest(old)}
    book["cells"].append(cell | {"source": old, "metadata": stub})
    answers = answers_in(book, tmp_path)
    assert answers.cells[FIRST] == sources.solution(FIRST)
    assert not answers.notes


def test_a_demonstration_is_not_taken_for_an_answer(tmp_path):
    """A cell of the chapter that happens to define the name."""
    book = sources.notebook("gqa")
    demos = [x for x in book["cells"] if not x["metadata"].get("nbgrader")]
    assert all(
        x.partition("-")[2] not in reading._cell(y).defined
        for x in EXERCISES
        for y in demos
    )
    book["cells"].remove(cell_of(book, FIRST))
    assert FIRST not in answers_in(book, tmp_path).cells


@pytest.mark.parametrize(
    "call",
    ["softmax = softmax(x)", "print('def softmax(')", "# def softmax", ""],
)
def test_a_cell_that_uses_a_name_does_not_define_it(call):
    assert "softmax" not in reading.Cell("code", call).defined
    text = f'"""\ndef softmax(x):\n"""\n{call}'
    assert "softmax" not in reading.Cell("code", text).defined


@pytest.mark.parametrize(
    ("source", "left", "lines"),
    [
        ("def f():\n    %time y = 3\n    return y", "def f():\n    y = 3", 1),
        ("def f():\n    !ls\n", "def f():\n    pass", 1),
        ("f?\nx = 1", "pass\nx = 1", 1),
        ("?f\n??g\nx = 1", "pass\npass\nx = 1", 2),
        ("files = !ls \\\n  -l\nx = 1", "pass\n\nx = 1", 1),
        ("%%timeit -n 3\nx = 1", "\nx = 1", 1),
        ("t = %timeit -o f()\nx", "pass\nx", 1),
        (">>> x = 1\n>>> y = 2", "x = 1\ny = 2", 0),
        ("  x = 1\n  y = 2", "x = 1\ny = 2", 0),
        ("get_ipython().system('ls')\nx = 1", "pass\nx = 1", 1),
    ],
)
def test_magics_are_left_out_and_line_numbers_are_kept(source, left, lines):
    text, left_out = without_magics(source)
    assert text.startswith(left)
    assert len(left_out) == lines
    assert text.count("\n") == source.count("\n")
    compile(text, "", "exec")


@pytest.mark.parametrize(
    "source",
    [
        "x = 7 % 3\ny = (5\n  % 2)",
        's = """\n%time\n!ls\nf?\n"""',
        "x = (\n",
        "if 1:\n    x\n  y",
        "\0",
    ],
)
def test_python_that_looks_like_a_magic_is_kept(source):
    assert without_magics(source) == (source, ())


def test_quotes_in_a_magic_do_not_hide_later_magics():
    source = "!echo '''\n!ls\ns = '''\n!ls\n'''\n%who\n"
    text, left_out = without_magics(source)
    assert text == "pass\npass\ns = '''\n!ls\n'''\npass\n"
    assert left_out == ("!echo '''", "!ls", "%who")
