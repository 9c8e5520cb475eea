"""Notebooks and Python files of which a part is odd, and all else counts."""

import json

from attn.exercises import sources
from tests.grading.classroom.damage.kinds import (
    DAMAGE,
    EXERCISES,
    FIRST,
    SECOND,
    THIRD,
    Damage,
    cell_of,
    solved,
)

ANSWER, STUB = sources.solution(FIRST), sources.stub(FIRST)
MARKS = {"grade_id": "mine", "solution": True}


def changed(name=FIRST, **to):
    """Return what changes an exercise's cell."""
    return lambda book: cell_of(book, name).update(to)


def appended(cell, **to):
    """Return what appends a cell."""
    return lambda book: book["cells"].append(cell | to)


def everywhere(**to):
    """Return what changes all cells."""
    return lambda book: {"cells": [x | to for x in book["cells"]]}


def encoded(encoding, **more):
    """Return what writes a notebook in an encoding."""
    return lambda book: json.dumps(book | more, ensure_ascii=False).encode(
        encoding
    )


def retyped(key, *values):
    """Return what gives a key of the first exercises' cells other values."""
    pairs = zip(EXERCISES, values, strict=False)
    return [changed(name, **{key: value}) for name, value in pairs]


def with_metadata_exchanged(book):
    first, second = cell_of(book, FIRST), cell_of(book, SECOND)
    kept = first["metadata"]
    first["metadata"], second["metadata"] = second["metadata"], kept


def of_format_3(book):
    for cell in book["cells"]:
        cell["input"] = cell.pop("source")
    return {"nbformat": 3, "worksheets": [{"cells": book["cells"]}, None]}


#: In which all exercises pass; platforms.py has what is usual.
HARMLESS = {
    "the_answer_in_a_cell_of_its_own": [
        appended({"cell_type": "code", "source": ANSWER}),
        changed(source=STUB),
    ],
    "an_exercise_renamed": changed(metadata={"nbgrader": MARKS}),
    "an_id_that_is_a_list": changed(metadata={"nbgrader": {"grade_id": [{}]}}),
    "two_ids_exchanged": with_metadata_exchanged,
    "the_other_way_round": lambda book: {"cells": book["cells"][::-1]},
    "half_a_surrogate": changed(source=f"{ANSWER}\n# \ud800"),
    "utf16_without_a_mark": encoded("utf-16-be"),
    "keys_twice": lambda book: '{"cells": [], ' + json.dumps(book)[1:],
    "metadata_of_another_kind": everywhere(metadata={"nbgrader": ["id", 3]}),
    "format_3": of_format_3,
    "outputs_of_another_kind": everywhere(outputs="x", execution_count=[1]),
}
MISSING = dict.fromkeys(EXERCISES, "missing")
DAMAGE |= {x: Damage(made) for x, made in HARMLESS.items()} | {
    "no_answers": Damage(
        lambda book: {"cells": book["cells"][1::2]}, status=MISSING
    ),
    "cells_retyped": Damage(
        retyped("cell_type", "markdown", "raw", ["code"]),
        status=dict.fromkeys(EXERCISES[:3], "missing"),
        notes={FIRST: "is markdown", SECOND: "is raw", THIRD: "is unknown"},
    ),
    "unmerged_in_a_cell": Damage(
        changed(source=f"<<<<<<< local\n{ANSWER}\n=======\n>>>>>>> remote"),
        status={FIRST: "wrong"},
        notes={FIRST: "conflict markers"},
    ),
    "a_cell_of_another_chapter": Damage(
        appended(cell_of(solved("sdp"), "sdp-softmax")),
        file_note="sdp-softmax",
    ),
    "latin1": Damage(encoded("latin-1", author="Zoë"), file_note="Latin-1"),
    "cells_that_are_none": Damage(
        lambda book: {"cells": [None, 3, "x", [{}], *book["cells"]]},
        file_note="4 of its 14 cells",
    ),
    "sources_that_are_no_text": Damage(
        retyped("source", 7, ["a", 1, 2], {"a": "b"}),
        status=dict.fromkeys(EXERCISES[:3], "not written"),
        notes=dict.fromkeys(EXERCISES[:3], "not text"),
    ),
    "no_source": Damage(changed(source=None), status={FIRST: "not written"}),
    "a_long_cell": Damage(
        changed(source=f"{ANSWER}\n{'#' * 2**21}"),
        status={FIRST: "not written"},
        notes={FIRST: "more than 262,144"},
    ),
}
PERCENT = "".join(
    f"\n# %%\n{sources.solution(x)}\n\n# %%\ncheck('{x}')\n" for x in EXERCISES
)
HEADER = "# ---\n# jupyter: &a [*a, *a]\n# jupytext: {formats: marimo}\n# ---"
SOLUTIONS = sources.solutions_path("gqa").read_text().replace("\n", "\r")
PYTHON = {
    "lines_of_another_time": SOLUTIONS.encode("utf-8-sig"),
    "another_formats_header": HEADER + PERCENT,
    "a_damaged_percent_mark": PERCENT + "# %% active=3\nx = 1\n",
    "an_endless_percent_mark": PERCENT + "# %% a=" + "[1,=1," * 10_000,
    "too_many_percent_cells": PERCENT + "# %%\n" * 30_000,
}
DAMAGE |= {x: Damage(made, ".py") for x, made in PYTHON.items()}
DAMAGE["python_with_a_syntax_error"] = Damage(
    "def repeat_kv(x, n_rep):\n    return (\n\0",
    ".py",
    status=MISSING | {FIRST: "wrong"},
)
