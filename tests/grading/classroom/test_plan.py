"""A file is read as text and no more; its cells are put in order."""

import ast
import json

import jupytext
import pytest

from attn.exercises import CHAPTERS, sources
from attn.grading.classroom import plan, reading
from attn.grading.classroom.plan import read
from attn.grading.classroom.reading import Unreadable
from attn.grading.classroom.submissions import Submission
from attn.publishing import notebooks
from attn.publishing.myst_to_markdown import copy_of
from tests.grading.classroom.damage import DAMAGE
from tests.grading.classroom.damage.kinds import (
    EXERCISES,
    FIRST,
    cell_of,
    planned,
    solved,
)


def read_file(path):
    return read(Submission(path, path.name, path.stem))


#: test_batch.py proves that the others have their messages.
READABLE = [x for x in DAMAGE if not DAMAGE[x].message]


@pytest.mark.parametrize("name", READABLE)
def test_a_broken_file_is_read_as_far_as_possible(name, tmp_path):
    broken = DAMAGE[name]
    found = read_file(broken.place(tmp_path, name))
    assert found.key == "gqa"
    assert found.notes.keys() == broken.notes.keys()
    for exercise, part in broken.notes.items():
        assert part in " ".join(found.notes[exercise])
    assert broken.file_note in " ".join(found.file_notes)
    assert bool(broken.file_note) == bool(found.file_notes)
    judged = [x.exercise for x in found.steps if isinstance(x, plan.Judge)]
    assert sorted(judged) == sorted(EXERCISES)
    texts = [x.text for x in found.own]
    json.dumps([texts, found.code, found.notes, found.file_notes]).encode()


@pytest.mark.parametrize("suffix", [".docx", ".ODT", ".pages", ".xlsx"])
def test_a_document_of_an_office_is_named_as_one(suffix, tmp_path):
    path = tmp_path / f"mine{suffix}"
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(Unreadable, match=f"it is a {suffix.lower()} file"):
        read_file(path)


@pytest.mark.parametrize("key", CHAPTERS)
def test_a_chapter_is_judged_of_which_nothing_runs_and_a_file_of_answers(key):
    names = [f"{key}-{x}" for x in sources.names(key)]
    untouched = read_file(sources.notebook_path(key))
    path = sources.solutions_path(key)
    solutions = read_file(path)
    own, *judged = solutions.steps
    assert untouched.key == solutions.key == key
    assert [*untouched.steps] == judged == [*map(plan.Judge, names)]
    assert untouched.stubs == {*names}
    assert not untouched.written and not untouched.notes
    copied = copy_of(sources.notebook(key), set_up=False)
    cells, _ = reading.notebook(json.dumps(copied))
    first = {x.number for x in plan.planned(cells, key).own}
    assert len(first) <= 1, "and of a copy only the imports, joined there"
    assert own.text.strip() == path.read_text("utf-8").strip()
    assert [*solutions.code] == names


@pytest.mark.parametrize("form", ["py:percent", "py:light", "py:hydrogen"])
def test_an_export_of_jupytext_is_read_as_its_notebook(form, tmp_path):
    path = sources.notebook_path("gqa")
    book = notebooks.solved(notebooks.read(path))
    text = jupytext.writes(book, form)
    found = planned(text, tmp_path, "x.py")
    solutions = {x: sources.solution(x) for x in EXERCISES}
    assert {k: x.strip() for k, x in found.code.items()} == solutions
    assert {*found.written} == {*EXERCISES} and not found.notes


@pytest.mark.parametrize("comment", ["# cat heads", "# !ls", "# %time x"])
def test_a_comment_like_a_magic_stays_a_comment(comment, tmp_path):
    answer = f"{comment}\n{sources.solution(FIRST)}"
    text = f"# %%\n{answer}\n\n# %%\ncheck('{FIRST}')\n"
    *_, own, judged = planned(text, tmp_path, "x.py").steps
    assert (own.text, judged) == (answer, plan.Judge(FIRST))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("x.ipynb", "sdp"),
        ("alice-05-GQA.ipynb", "gqa"),
        ("alice/05_gqa/x.ipynb", "gqa"),
        ("03_masks.ipynb", "sdp"),  # it defines nothing of that chapter
    ],
)
def test_the_name_gives_the_chapter_of_cells_without_ids(name, key, tmp_path):
    names = "sdp-softmax", "sdp-attention", "gqa-repeat_kv"
    texts = map(sources.solution, names)
    code = [{"cell_type": "code", "source": x} for x in texts]
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    assert planned({"cells": code}, tmp_path, name).key == key
    # The ids of cells give it whatever the file is called.
    assert planned(solved(), tmp_path, "02_sdp.ipynb").key == "gqa"


def test_an_older_stub_is_not_taken_for_an_answer(tmp_path):
    book = solved()
    cell = cell_of(book, FIRST)
    old = "def repeat_kv(x):\n    raise NotImplementedError"
    stub = {"nbgrader": cell["metadata"]["nbgrader"]}
    stub["attn"] = {"stub": notebooks.digest(old)}
    book["cells"].append(cell | {"source": old, "metadata": stub})
    answers = planned(book, tmp_path)
    assert answers.code[FIRST] == sources.solution(FIRST)
    assert old not in [x.text for x in answers.own]


def test_a_demonstration_is_not_taken_for_an_answer(tmp_path):
    """A cell of the chapter that happens to define the name."""
    book = sources.notebook("gqa")
    book["cells"].remove(cell_of(book, FIRST))
    found = planned(book, tmp_path)
    assert FIRST not in found.written and FIRST not in found.stubs
    assert not found.own


CHECK = 'check("gqa-repeat_kv")'
QUOTED = f's = """\n{CHECK}\n"""\nif s:\n    {CHECK}'
TWICE = ["repeat_kv = 1", "y = 2", "class repeat_kv: pass"]
#: The cells, and the steps without those of the other exercises.
PLACES = {
    "below the cell, where there is no check": (
        ["x = 1", "def repeat_kv(): pass", "y = 2"],
        ["x = 1", "def repeat_kv(): pass", FIRST, "y = 2"],
    ),
    "below its own cell, whatever is in it": (
        ["x = 1", ("y = 2", FIRST), "z = 3"],
        ["x = 1", "y = 2", FIRST, "z = 3"],
    ),
    "below the last cell that defines it": (TWICE, [*TWICE, FIRST]),
    "at its check, between the lines of one cell": (
        [f"repeat_kv = 1\n{CHECK}\ny = 2"],
        ["repeat_kv = 1", FIRST, "y = 2"],
    ),
    "at its last check": (
        [CHECK, "repeat_kv = 1", CHECK.replace('"', "'"), "y = 2"],
        ["repeat_kv = 1", FIRST, "y = 2"],
    ),
    "not at a check in a text, or in a block": ([QUOTED], [FIRST, QUOTED]),
    "at a check with a comment behind it": (
        [f"{CHECK};  # mine", "y = 2"],
        [FIRST, "y = 2"],
    ),
    "first, where nothing defines it": (["x = 1"], [FIRST, "x = 1"]),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_exercise_is_judged(place):
    given, expected = PLACES[place]
    cells = [(x, None) if isinstance(x, str) else x for x in given]
    document = [reading.Cell("code", *x) for x in cells]
    found = [
        x.exercise if isinstance(x, plan.Judge) else x.text
        for x in plan.planned(document, "gqa").steps
    ]
    rest = EXERCISES[1:]
    assert [x for x in found if x in rest] == rest
    assert [x for x in found if x not in rest] == expected


@pytest.mark.parametrize("call", ["# {}", "_ = {}", "x = 1"])
def test_the_place_of_a_changed_check_is_where_it_was(call, tmp_path):
    book = solved()
    book["cells"][1]["source"] = call.format(CHECK)
    book["cells"].append({"cell_type": "code", "source": "repeat_kv(1)"})
    found = planned(book, tmp_path)
    assert len(found.own) == 7 and found.steps[2] == plan.Judge(FIRST)


def test_the_text_of_the_cells_is_as_python_reads_it():
    cells = ["%%time\nimport triton\n\n@triton.jit\ndef f(x):\n    x = 1"]
    cells += ["!ls\nclass A:\n    def g(self): pass\ny = 3", "def broken("]
    document = [reading.Cell("code", x) for x in cells]
    ran = plan.planned(document, "gqa").python
    assert "@triton.jit\ndef f(x):\n    x = 1\n" in ran
    names = [getattr(x, "name", None) for x in ast.parse(ran).body]
    assert [x for x in names if x] == ["f", "A"]
