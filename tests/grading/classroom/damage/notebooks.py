"""Another encoding, another format, other metadata."""

import json

from tests.grading.classroom.damage.kinds import (
    EXERCISES,
    FIRST,
    SECOND,
    THIRD,
    cell_of,
    read,
)


@read()
def utf8_with_a_mark(book):
    return json.dumps(book, ensure_ascii=False).encode("utf-8-sig")


@read()
def utf16(book):
    return json.dumps(book).encode("utf-16")


@read()
def utf16_without_a_mark(book):
    return json.dumps(book).encode("utf-16-be")


@read(file_note="Latin-1")
def latin1(book):
    text = json.dumps(book | {"author": "Zoë"}, ensure_ascii=False)
    return text.encode("latin-1")


@read()
def windows_lines(book):
    for cell in book["cells"]:
        cell["source"] = "".join(cell["source"]).replace("\n", "\r\n")
    return json.dumps(book, indent=1).replace("\n", "\r\n")


@read()
def old_macs_lines(book):
    for cell in book["cells"]:
        cell["source"] = "".join(cell["source"]).replace("\n", "\r")
    return json.dumps(book, indent=1).replace("\n", "\r")


@read()
def half_a_surrogate(book):
    cell_of(book, FIRST)["source"].append("\n# \ud800")


@read({FIRST: "wrong"})
def a_zero_byte(book):
    cell_of(book, FIRST)["source"].append("\n\0")


@read()
def numbers_without_end(book):
    book["metadata"] = {"a": 0, "b": float("nan"), "c": float("inf")}
    return json.dumps(book).replace('"a": 0', f'"a": {"9" * 100_000}')


@read()
def keys_twice(book):
    text = json.dumps(book)
    return text[:1] + '"cells": [], ' + text[1:]


@read(file_note="4 of its 14 cells")
def cells_that_are_none(book):
    book["cells"][3:3] = [None, 3, "x", [{}]]


@read(
    dict.fromkeys(EXERCISES[:3], "not written"),
    dict.fromkeys(EXERCISES[:3], "not text"),
)
def sources_that_are_no_text(book):
    cell_of(book, FIRST)["source"] = 7
    cell_of(book, SECOND)["source"] = ["a", 1, 2]
    cell_of(book, THIRD)["source"] = {"a": "b"}


@read({FIRST: "not written"})
def no_source(book):
    cell_of(book, FIRST)["source"] = None


@read({FIRST: "not written"}, {FIRST: "more than 262,144"})
def a_long_cell(book):
    cell_of(book, FIRST)["source"].append("\n" + "#" * 2**21)


@read()
def metadata_lost(book):
    for cell in book["cells"]:
        cell["metadata"] = None


@read()
def metadata_and_ids_lost(book):
    for cell in book["cells"]:
        del cell["id"]
        cell["metadata"] = {"nbgrader": ["grade_id", 3]}


@read()
def saved_by_colab(book):
    for cell in book["cells"]:
        cell["metadata"] = {"id": cell.pop("id"), "outputId": "a1"}
    return book | {"nbformat_minor": 0}


@read()
def an_id_that_is_a_list(book):
    cell_of(book, FIRST)["metadata"]["nbgrader"]["grade_id"] = [{}]


@read(file_note="which notebook format")
def no_format(book):
    del book["nbformat"], book["nbformat_minor"], book["metadata"]


@read()
def format_4_0(book):
    for cell in book["cells"]:
        del cell["id"]
    return book | {"nbformat_minor": 0}


@read()
def format_3(book):
    for cell in book["cells"]:
        cell["input"] = cell.pop("source")
    return {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {"name": ""},
        "worksheets": [{"cells": book["cells"]}, None],
    }


@read()
def outputs_of_another_kind(book):
    for cell in book["cells"]:
        cell |= {"outputs": "x" * 10_000, "execution_count": [1]}
