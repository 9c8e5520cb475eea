"""Cells that are missing, repeated, retyped, exchanged, or no Python."""

from attn.exercises import cells, sources
from tests.grading.classroom.damage.kinds import (
    EXERCISES,
    FIRST,
    SECOND,
    THIRD,
    cell_of,
    read,
    solved,
)


@read()
def the_same_cell_twice(path, book):
    book["cells"].append(cell_of(book, FIRST))
    return book


@read()
def a_stub_after_the_answer(path, book):
    stub = {"source": sources.stub(FIRST)}
    book["cells"].append(cell_of(book, FIRST) | stub)
    return book


@read()
def another_answer_after_the_answer(path, book):
    other = {"source": "def repeat_kv(x, n_rep):\n    return x"}
    book["cells"].append(cell_of(book, FIRST) | other)
    return book


@read()
def the_answer_in_a_cell_of_its_own(path, book):
    cell = cell_of(book, FIRST)
    book["cells"].append(
        {"cell_type": "code", "source": cell["source"], "metadata": {}}
    )
    cell["source"] = sources.stub(FIRST)
    return book


@read()
def two_cells_merged(path, book):
    second = cell_of(book, SECOND)
    book["cells"].remove(second)
    cell_of(book, FIRST)["source"] += ["\n\n", *second["source"]]
    return book


@read({FIRST: "missing"})
def a_cell_deleted(path, book):
    book["cells"].remove(cell_of(book, FIRST))
    return book


@read(dict.fromkeys(EXERCISES, "missing"))
def all_answers_deleted(path, book):
    kept = [x for x in book["cells"] if not cells.exercise_id(x)]
    return book | {"cells": kept}


@read()
def an_exercise_renamed(path, book):
    cell_of(book, FIRST)["metadata"]["nbgrader"]["grade_id"] = "mine"
    return book


@read()
def two_ids_exchanged(path, book):
    first, second = cell_of(book, FIRST), cell_of(book, SECOND)
    for name in ("metadata", "id"):
        first[name], second[name] = second[name], first[name]
    return book


@read()
def the_other_way_round(path, book):
    return book | {"cells": book["cells"][::-1]}


@read(
    dict.fromkeys(EXERCISES[:3], "missing"),
    {FIRST: "is markdown", SECOND: "is raw", THIRD: "is unknown"},
)
def cells_retyped(path, book):
    cell_of(book, FIRST)["cell_type"] = "markdown"
    cell_of(book, SECOND)["cell_type"] = "raw"
    cell_of(book, THIRD)["cell_type"] = ["code"]
    return book


@read({FIRST: "wrong"}, {FIRST: "conflict markers"})
def unmerged_in_a_cell(path, book):
    cell = cell_of(book, FIRST)
    text = "".join(cell["source"])
    cell["source"] = f"<<<<<<< local\n{text}\n=======\n>>>>>>> remote"
    return book


@read({FIRST: "wrong"})
def a_syntax_error(path, book):
    cell_of(book, FIRST)["source"].append("\n    return (")
    return book


@read({FIRST: "wrong"})
def tabs_among_spaces(path, book):
    cell_of(book, FIRST)["source"].append("\n    if 1:\n\tpass\n   x")
    return book


@read({FIRST: "wrong"})
def an_expression_too_deep(path, book):
    cell_of(book, FIRST)["source"].append("\nx" + ".a" * 100_000)
    return book


@read()
def magics(path, book):
    cell_of(book, FIRST)["source"].insert(0, "%%time\n")
    cell_of(book, SECOND)["source"].append("\n%matplotlib inline\n!ls\n")
    return book


@read(file_note="sdp-softmax")
def a_cell_of_another_chapter(path, book):
    book["cells"].append(cell_of(solved("sdp"), "sdp-softmax"))
    return book
