"""Notebooks of which a cell, the encoding, the format or a key is odd."""

import json

from attn.exercises import cells, sources
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
OTHER = "def repeat_kv(x, n_rep):\n    return x"
MARKS = {"grade_id": "mine", "solution": True}


def changed(name=FIRST, **to):
    """Return what changes an exercise's cell."""
    return lambda book: cell_of(book, name).update(to)


def appended(cell=None, **to):
    """Return what appends a cell, by default the first exercise's."""
    return lambda book: book["cells"].append(
        (cell or cell_of(book, FIRST)) | to
    )


def without(*names):
    """Return what leaves out the cells of exercises."""
    return lambda book: {
        "cells": [
            x for x in book["cells"] if cells.exercise_id(x) not in names
        ]
    }


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


def with_lines(end):
    """Return what gives a file, and the text of its cells, other lines."""

    def write(book):
        for cell in book["cells"]:
            cell["source"] = "".join(cell["source"]).replace("\n", end)
        return json.dumps(book, indent=1).replace("\n", end)

    return write


def with_metadata_exchanged(book):
    first, second = cell_of(book, FIRST), cell_of(book, SECOND)
    kept = first["metadata"]
    first["metadata"], second["metadata"] = second["metadata"], kept


def with_endless_numbers(book):
    odd = {"a": 0, "b": float("nan"), "c": float("inf")}
    text = json.dumps(book | {"metadata": odd})
    return text.replace('"a": 0', f'"a": {"9" * 100_000}')


def of_format_3(book):
    for cell in book["cells"]:
        cell["input"] = cell.pop("source")
    return {"nbformat": 3, "worksheets": [{"cells": book["cells"]}, None]}


#: In which all exercises pass.
HARMLESS = {
    "the_same_cell_twice": appended(),
    "a_stub_after_the_answer": appended(source=STUB),
    "another_answer_after_the_answer": appended(source=OTHER),
    "the_answer_in_a_cell_of_its_own": [
        appended(source=ANSWER, metadata={}),
        changed(source=STUB),
    ],
    "two_cells_merged": [
        changed(source=f"{ANSWER}\n\n{sources.solution(SECOND)}"),
        without(SECOND),
    ],
    "an_exercise_renamed": changed(metadata={"nbgrader": MARKS}),
    "an_id_that_is_a_list": changed(metadata={"nbgrader": {"grade_id": [{}]}}),
    "two_ids_exchanged": with_metadata_exchanged,
    "the_other_way_round": lambda book: {"cells": book["cells"][::-1]},
    "magics": changed(source=f"%%time\n{ANSWER}\n%matplotlib inline\n!ls\n"),
    "half_a_surrogate": changed(source=f"{ANSWER}\n# \ud800"),
    "utf8_with_a_mark": encoded("utf-8-sig"),
    "utf16": encoded("utf-16"),
    "utf16_without_a_mark": encoded("utf-16-be"),
    "windows_lines": with_lines("\r\n"),
    "old_macs_lines": with_lines("\r"),
    "numbers_without_end": with_endless_numbers,
    "keys_twice": lambda book: '{"cells": [], ' + json.dumps(book)[1:],
    "metadata_lost": everywhere(metadata=None),
    "metadata_of_another_kind": everywhere(metadata={"nbgrader": ["id", 3]}),
    "saved_by_colab": everywhere(metadata={"id": "a0", "outputId": "a1"}),
    "no_format": lambda book: {"cells": book["cells"]},
    "format_3": of_format_3,
    "outputs_of_another_kind": everywhere(outputs="x", execution_count=[1]),
}
WRONG, UNWRITTEN = {FIRST: "wrong"}, {FIRST: "not written"}
DAMAGE |= {x: Damage(made) for x, made in HARMLESS.items()} | {
    "a_cell_deleted": Damage(without(FIRST), status={FIRST: "missing"}),
    "all_answers_deleted": Damage(
        without(*EXERCISES), status=dict.fromkeys(EXERCISES, "missing")
    ),
    "cells_retyped": Damage(
        retyped("cell_type", "markdown", "raw", ["code"]),
        status=dict.fromkeys(EXERCISES[:3], "missing"),
        notes={FIRST: "is markdown", SECOND: "is raw", THIRD: "is unknown"},
    ),
    "unmerged_in_a_cell": Damage(
        changed(source=f"<<<<<<< local\n{ANSWER}\n=======\n>>>>>>> remote"),
        status=WRONG,
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
    "no_source": Damage(changed(source=None), status=UNWRITTEN),
    "a_long_cell": Damage(
        changed(source=f"{ANSWER}\n{'#' * 2**21}"),
        status=UNWRITTEN,
        notes={FIRST: "more than 262,144"},
    ),
}
#: By what is added to an answer, which is no Python then.
BROKEN = {
    "a_syntax_error": "\n    return (",
    "tabs_among_spaces": "\n    if 1:\n\tpass\n   x",
    "an_expression_too_deep": "\nx" + ".a" * 100_000,
    "a_zero_byte": "\n\0",
}
for name, text in BROKEN.items():
    DAMAGE[name] = Damage(changed(source=ANSWER + text), status=WRONG)
