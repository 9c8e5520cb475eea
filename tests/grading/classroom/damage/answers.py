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
def the_same_cell_twice(book):
    book["cells"].append(cell_of(book, FIRST))


@read()
def a_stub_after_the_answer(book):
    stub = {"source": sources.stub(FIRST)}
    book["cells"].append(cell_of(book, FIRST) | stub)


@read()
def another_answer_after_the_answer(book):
    other = {"source": "def repeat_kv(x, n_rep):\n    return x"}
    book["cells"].append(cell_of(book, FIRST) | other)


@read()
def the_answer_in_a_cell_of_its_own(book):
    cell = cell_of(book, FIRST)
    book["cells"].append(
        {"cell_type": "code", "source": cell["source"], "metadata": {}}
    )
    cell["source"] = sources.stub(FIRST)


@read()
def two_cells_merged(book):
    second = cell_of(book, SECOND)
    book["cells"].remove(second)
    cell_of(book, FIRST)["source"] += ["\n\n", *second["source"]]


@read({FIRST: "missing"})
def a_cell_deleted(book):
    book["cells"].remove(cell_of(book, FIRST))


@read(dict.fromkeys(EXERCISES, "missing"))
def all_answers_deleted(book):
    kept = [x for x in book["cells"] if not cells.exercise_id(x)]
    return book | {"cells": kept}


@read()
def an_exercise_renamed(book):
    cell_of(book, FIRST)["metadata"]["nbgrader"]["grade_id"] = "mine"


@read()
def two_ids_exchanged(book):
    first, second = cell_of(book, FIRST), cell_of(book, SECOND)
    for name in ("metadata", "id"):
        first[name], second[name] = second[name], first[name]


@read()
def the_other_way_round(book):
    return book | {"cells": book["cells"][::-1]}


@read(
    dict.fromkeys(EXERCISES[:3], "missing"),
    {FIRST: "is markdown", SECOND: "is raw", THIRD: "is unknown"},
)
def cells_retyped(book):
    cell_of(book, FIRST)["cell_type"] = "markdown"
    cell_of(book, SECOND)["cell_type"] = "raw"
    cell_of(book, THIRD)["cell_type"] = ["code"]


@read({FIRST: "wrong"}, {FIRST: "conflict markers"})
def unmerged_in_a_cell(book):
    cell = cell_of(book, FIRST)
    text = "".join(cell["source"])
    cell["source"] = f"<<<<<<< local\n{text}\n=======\n>>>>>>> remote"


@read({FIRST: "wrong"})
def a_syntax_error(book):
    cell_of(book, FIRST)["source"].append("\n    return (")


@read({FIRST: "wrong"})
def tabs_among_spaces(book):
    cell_of(book, FIRST)["source"].append("\n    if 1:\n\tpass\n   x")


@read({FIRST: "wrong"})
def an_expression_too_deep(book):
    cell_of(book, FIRST)["source"].append("\nx" + ".a" * 100_000)


@read()
def magics(book):
    cell_of(book, FIRST)["source"].insert(0, "%%time\n")
    cell_of(book, SECOND)["source"].append("\n%matplotlib inline\n!ls\n")


@read(file_note="sdp-softmax")
def a_cell_of_another_chapter(book):
    book["cells"].append(cell_of(solved("sdp"), "sdp-softmax"))
