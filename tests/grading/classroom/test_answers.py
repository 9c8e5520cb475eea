"""Answers are read from whatever file they are in, as text and no more."""

import json

import pytest

from attn.exercises import CHAPTERS, sources
from attn.grading.classroom import contents, documents
from attn.grading.classroom.answers import read
from attn.grading.classroom.contents import Unreadable
from attn.grading.classroom.magics import without_magics
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


def of(path):
    return read(Submission(path, path.name, path.stem))


def answers_in(book, tmp_path, name="x.ipynb"):
    path = tmp_path / name
    path.write_text(book if isinstance(book, str) else json.dumps(book))
    return of(path)


@pytest.mark.parametrize("name", DAMAGE)
def test_of_a_broken_file_all_is_read_that_can_be(name, tmp_path):
    broken = DAMAGE[name]
    path = broken.place(tmp_path, name)
    if broken.said:
        with pytest.raises(Unreadable, match=broken.said):
            of(path)
        return
    found = of(path)
    assert found.key == "gqa"
    expected = dict.fromkeys(EXERCISES, "passed") | broken.status
    status = {x: status_of(x, found.cells) for x in EXERCISES}
    assert status == expected
    assert found.notes.keys() == broken.notes.keys()
    for exercise, part in broken.notes.items():
        assert part in " ".join(found.notes[exercise])
    assert broken.file_note in " ".join(found.file_notes)
    assert bool(broken.file_note) == bool(found.file_notes)
    json.dumps([found.cells, found.notes, found.file_notes]).encode()


def test_there_are_enough_kinds_of_damage():
    assert len([x for x in DAMAGE.values() if x.said]) > 25
    assert len(DAMAGE) > 60


@pytest.mark.parametrize("key", CHAPTERS)
def test_each_chapter_is_read_in_its_order(key):
    found = of(sources.notebook_path(key))
    assert found.key == key
    assert list(found.cells) == [f"{key}-{x}" for x in sources.names(key)]
    assert not found.notes
    for exercise, text in found.cells.items():
        assert text == sources.stub(exercise)


@pytest.mark.parametrize("key", CHAPTERS)
def test_the_solutions_can_be_handed_in_as_they_are(key):
    path = sources.solutions_path(key)
    found = of(path)
    assert found.key == key
    assert list(found.cells) == [f"{key}-{x}" for x in sources.names(key)]
    assert set(found.cells.values()) == {path.read_text(encoding="utf-8")}


def test_an_appendix_holds_no_exercise():
    with pytest.raises(Unreadable, match="no exercise"):
        of(sources.notebook_path("gqa").with_name("museum.ipynb"))


def test_a_file_is_opened_only_as_a_file(tmp_path, monkeypatch):
    path = tmp_path / "x.ipynb"
    path.write_text("{}")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(contents.os, "open", refuse)
    with pytest.raises(Unreadable, match="opened: Permission denied"):
        of(path)


def test_a_file_that_turns_into_a_pipe_does_not_hold_the_reader(
    tmp_path, monkeypatch
):
    path = tmp_path / "x.ipynb"
    path.write_text("{}")
    before = contents.os.lstat(path)
    path.unlink()
    contents.os.mkfifo(path)
    monkeypatch.setattr(contents.os, "lstat", lambda _: before)
    with pytest.raises(Unreadable, match="not a file"):
        of(path)


def test_no_more_is_read_than_the_limit(tmp_path, monkeypatch):
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(solved()))
    size = path.stat().st_size
    monkeypatch.setattr(contents, "LIMIT", size)
    assert len(of(path).cells) == 5
    monkeypatch.setattr(contents, "LIMIT", size - 1)
    with pytest.raises(Unreadable, match="Clear its outputs"):
        of(path)


def unmarked(names, key):
    some = [
        {"cell_type": "code", "source": sources.solution(f"{key}-{x}")}
        for x in names
    ]
    return {"nbformat": 4, "cells": some}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("x.ipynb", "sdp"),
        ("alice-05-GQA.ipynb", "gqa"),
        ("alice/05_gqa/x.ipynb", "gqa"),
        ("03_masks.ipynb", "sdp"),  # it defines nothing of that chapter
    ],
)
def test_without_ids_the_file_name_tells_the_chapter(name, key, tmp_path):
    book = unmarked(["softmax", "attention"], "sdp")
    book["cells"] += unmarked(["repeat_kv"], "gqa")["cells"]
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(book))
    assert read(Submission(path, name, "alice")).key == key


def test_ids_tell_the_chapter_whatever_the_file_is_called(tmp_path):
    assert answers_in(solved(), tmp_path, "02_sdp.ipynb").key == "gqa"


def test_an_older_stub_is_no_work(tmp_path):
    book = solved()
    cell = cell_of(book, FIRST)
    old = "def repeat_kv(x):\n    raise NotImplementedError"
    stub = {"nbgrader": cell["metadata"]["nbgrader"]}
    stub["attn"] = {"stub": notebooks.digest(old)}
    book["cells"].append(cell | {"source": old, "metadata": stub})
    found = answers_in(book, tmp_path)
    assert found.cells[FIRST] == sources.solution(FIRST)
    assert not found.notes


def test_a_demonstration_is_no_answer(tmp_path):
    """A cell of the chapter that happens to define the name."""
    book = json.loads(sources.notebook_path("gqa").read_text())
    demos = [x for x in book["cells"] if not x["metadata"].get("nbgrader")]
    assert all(
        x.partition("-")[2] not in documents._cell(y).defined
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
    assert "softmax" not in documents.Cell("code", call).defined
    text = f'"""\ndef softmax(x):\n"""\n{call}'
    assert "softmax" not in documents.Cell("code", text).defined


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
def test_magics_are_left_out_and_lines_keep_their_number(source, left, lines):
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
def test_python_keeps_what_looks_like_a_magic(source):
    assert without_magics(source) == (source, ())


def test_a_magic_hides_no_other():
    source = "!echo '''\n!ls\ns = '''\n!ls\n'''\n%who\n"
    text, left_out = without_magics(source)
    assert text == "pass\npass\ns = '''\n!ls\n'''\npass\n"
    assert left_out == ("!echo '''", "!ls", "%who")
