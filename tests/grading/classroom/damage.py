"""Submissions that are broken, and what is to become of each.

``@unreadable(said)`` marks a file in which nothing can be graded; ``@read``
one whose other exercises count. Each function gets the path to write, and a
solved notebook to damage.
"""

import copy
import json
import os
import pickle
import zipfile
from dataclasses import dataclass, field
from functools import cache

from attn.exercises import cells, sources

FIRST, SECOND, THIRD, FOURTH, FIFTH = EXERCISES = [
    f"gqa-{name}" for name in sources.names("gqa")
]
DAMAGE = {}  # by name


@dataclass(frozen=True)
class Damage:
    write: object
    suffix: str
    said: str | None = None  # of an unreadable one
    status: dict = field(default_factory=dict)  # of what does not pass
    notes: dict = field(default_factory=dict)  # part of each note
    file_note: str = ""
    judged: dict = field(default_factory=dict)  # what runs, and is not right

    def place(self, folder, name):
        path = folder / f"{name}{self.suffix}"
        made = self.write(path, solved())
        if isinstance(made, dict):
            made = json.dumps(made)
        if isinstance(made, str):
            made = made.encode()
        if made is not None:
            path.write_bytes(made)
        return path


def solved(key="gqa"):
    """A solved chapter without its demonstrations and outputs."""
    return copy.deepcopy(_solved(key))


@cache
def _solved(key):
    text = sources.notebook_path(key).read_text(encoding="utf-8")
    notebook = json.loads(text)
    kept = []
    for cell in notebook["cells"]:
        if name := cells.exercise_id(cell):
            cell["source"] = sources.solution(name).splitlines(keepends=True)
        if name or cells.checked_id(cell):
            cell["outputs"], cell["execution_count"] = [], None
            kept.append(cell)
    return notebook | {"cells": kept}


def cell_of(book, name):
    return next(x for x in book["cells"] if cells.exercise_id(x) == name)


def unreadable(said, suffix=".ipynb"):
    def mark(write):
        DAMAGE[write.__name__] = Damage(write, suffix, said)
        return write

    return mark


def read(status=None, notes=None, file_note="", suffix=".ipynb", judged=None):
    about = (status or {}, notes or {}, file_note, judged or {})

    def mark(write):
        DAMAGE[write.__name__] = Damage(write, suffix, None, *about)
        return write

    return mark


# --- nothing can be graded ---------------------------------------------------


@unreadable("empty")
def empty(path, book):
    return b""


@unreadable("empty")
def blank(path, book):
    return " \n\t\r\n"


@unreadable("breaks off")
def truncated(path, book):
    text = json.dumps(book)
    return text[: len(text) // 2]


@unreadable("breaks off")
def without_its_last_brace(path, book):
    return json.dumps(book)[:-1]


@unreadable("no JSON")
def python_in_a_notebook(path, book):
    return sources.solution(FIRST)


@unreadable("no JSON")
def noise(path, book):
    return bytes(range(256)) * 40


@unreadable("got a list")
def a_list(path, book):
    return json.dumps([book])


@unreadable("got a number")
def a_number(path, book):
    return "9" * 5000


@unreadable("got nothing")
def not_a_number(path, book):
    return "NaN"


@unreadable("nested too deeply")
def nested(path, book):
    return "[" * 100_000


@unreadable("nested too deeply")
def nested_in_metadata(path, book):
    text = json.dumps(book | {"metadata": 0})
    deep = '{"a":' * 100_000 + "0" + "}" * 100_000
    return text.replace('"metadata": 0', f'"metadata": {deep}')


@unreadable("millions of values")
def millions_of_lists(path, book):
    return "[" + "[]," * 2_000_000 + "[]]"


@unreadable("got 5")
def format_5(path, book):
    return book | {"nbformat": 5}


@unreadable("got an object")
def cells_in_a_dict(path, book):
    return book | {"cells": dict(enumerate(book["cells"]))}


@unreadable("got nothing")
def no_cells(path, book):
    del book["cells"]
    return book


@unreadable("at most 10000")
def too_many_cells(path, book):
    return book | {"cells": book["cells"] * 2000}


@unreadable("no exercise")
def of_another_course(path, book):
    cell = {"cell_type": "code", "source": "def f(): pass", "metadata": {}}
    return book | {"cells": [cell] * 3}


@unreadable("Clear its outputs")
def a_hundred_megabytes(path, book):
    path.write_text(json.dumps(book))
    os.truncate(path, 100 * 2**20)  # and takes no room on the disk


@unreadable("zip archive")
def zipped(path, book):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("05_gqa.ipynb", json.dumps(book))


@unreadable("never loaded")
def pickled(path, book):
    return pickle.dumps(book)


@unreadable("web page")
def a_web_page(path, book):
    return "\n<!DOCTYPE html>\n<html><body>05_gqa.ipynb</body></html>"


@unreadable("conflict markers")
def unmerged(path, book):
    text = json.dumps(book, indent=1)
    half = len(text) // 2
    return f"{text[:half]}\n<<<<<<< HEAD\n=======\n>>>>>>> b\n{text[half:]}"


@unreadable("pipe")
def a_pipe(path, book):
    os.mkfifo(path)


@unreadable("symbolic link")
def a_link_to_a_device(path, book):
    path.symlink_to("/dev/zero")


@unreadable("symbolic link")
def a_link_to_itself(path, book):
    path.symlink_to(path.name)


@unreadable("symbolic link")
def a_link_to_somebodys_answers(path, book):
    path.symlink_to(sources.solutions_path("gqa"))


@unreadable("folder")
def a_folder(path, book):
    path.mkdir()


@unreadable("empty", ".py")
def empty_python(path, book):
    return b""


@unreadable("a million", ".py")
def python_without_end(path, book):
    return "# %%\n" * 300_000


@unreadable("no exercise", ".py")
def another_program(path, book):
    return "import os\nprint(os.getcwd())\n"


# --- the encoding ------------------------------------------------------------


@read()
def utf8_with_a_mark(path, book):
    return json.dumps(book, ensure_ascii=False).encode("utf-8-sig")


@read()
def utf16(path, book):
    return json.dumps(book).encode("utf-16")


@read()
def utf16_without_a_mark(path, book):
    return json.dumps(book).encode("utf-16-be")


@read(file_note="Latin-1")
def latin1(path, book):
    text = json.dumps(book | {"author": "Zoë"}, ensure_ascii=False)
    return text.encode("latin-1")


@read()
def windows_lines(path, book):
    for cell in book["cells"]:
        cell["source"] = "".join(cell["source"]).replace("\n", "\r\n")
    return json.dumps(book, indent=1).replace("\n", "\r\n")


@read()
def old_macs_lines(path, book):
    for cell in book["cells"]:
        cell["source"] = "".join(cell["source"]).replace("\n", "\r")
    return json.dumps(book, indent=1).replace("\n", "\r")


@read({FIRST: "wrong"})
def half_a_surrogate(path, book):
    cell_of(book, FIRST)["source"].append("\n# \ud800")
    return book


@read({FIRST: "wrong"}, judged={FIRST: "wrong"})
def a_zero_byte(path, book):
    cell_of(book, FIRST)["source"].append("\n\0")
    return book


# --- the notebook ------------------------------------------------------------


@read()
def numbers_without_end(path, book):
    book["metadata"] = {"a": 0, "b": float("nan"), "c": float("inf")}
    return json.dumps(book).replace('"a": 0', f'"a": {"9" * 100_000}')


@read(file_note="keys are repeated")
def keys_twice(path, book):
    text = json.dumps(book)
    return text[:1] + '"cells": [], ' + text[1:]


@read(file_note="4 of its 14 cells")
def cells_that_are_none(path, book):
    book["cells"][3:3] = [None, 3, "x", [{}]]
    return book


@read(
    dict.fromkeys(EXERCISES[:3], "not written"),
    dict.fromkeys(EXERCISES[:3], "not text"),
)
def sources_that_are_no_text(path, book):
    cell_of(book, FIRST)["source"] = 7
    cell_of(book, SECOND)["source"] = ["a", 1, 2]
    cell_of(book, THIRD)["source"] = {"a": "b"}
    return book


@read({FIRST: "not written"})
def no_source(path, book):
    cell_of(book, FIRST)["source"] = None
    return book


@read({FIRST: "not written"}, {FIRST: "a million"})
def a_long_cell(path, book):
    cell_of(book, FIRST)["source"].append("\n" + "#" * 2**21)
    return book


@read(notes=dict.fromkeys(EXERCISES, "cell's id"))
def metadata_lost(path, book):
    for cell in book["cells"]:
        cell["metadata"] = None
    return book


@read(notes=dict.fromkeys(EXERCISES, "by its name"))
def metadata_and_ids_lost(path, book):
    for cell in book["cells"]:
        del cell["id"]
        cell["metadata"] = {"nbgrader": ["grade_id", 3]}
    return book


@read(notes=dict.fromkeys(EXERCISES, "cell's id"))
def saved_by_colab(path, book):
    for cell in book["cells"]:
        cell["metadata"] = {"id": cell.pop("id"), "outputId": "a1"}
    return book | {"nbformat_minor": 0}


@read(notes={FIRST: "cell's id"})
def an_id_that_is_a_list(path, book):
    cell_of(book, FIRST)["metadata"]["nbgrader"]["grade_id"] = [{}]
    return book


@read(file_note="which notebook format")
def no_format(path, book):
    del book["nbformat"], book["nbformat_minor"], book["metadata"]
    return book


@read()
def format_4_0(path, book):
    for cell in book["cells"]:
        del cell["id"]
    return book | {"nbformat_minor": 0}


@read()
def format_3(path, book):
    for cell in book["cells"]:
        cell["input"] = cell.pop("source")
    return {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {"name": ""},
        "worksheets": [{"cells": book["cells"]}, None],
    }


@read()
def outputs_of_another_kind(path, book):
    for cell in book["cells"]:
        cell |= {"outputs": "x" * 10_000, "execution_count": [1]}
    return book


# --- the cells ---------------------------------------------------------------


@read()
def the_same_cell_twice(path, book):
    book["cells"].append(cell_of(book, FIRST))
    return book


@read()
def a_stub_after_the_answer(path, book):
    stub = {"source": sources.stub(FIRST)}
    book["cells"].append(cell_of(book, FIRST) | stub)
    return book


@read({FIRST: "wrong"}, {FIRST: "the last counts"}, judged={FIRST: "wrong"})
def another_answer_after_the_answer(path, book):
    other = {"source": "def repeat_kv(x, n_rep):\n    return x"}
    book["cells"].append(cell_of(book, FIRST) | other)
    return book


@read(notes={FIRST: "by its name"})
def the_answer_in_a_cell_of_its_own(path, book):
    cell = cell_of(book, FIRST)
    book["cells"].append(
        {"cell_type": "code", "source": cell["source"], "metadata": {}}
    )
    cell["source"] = sources.stub(FIRST)
    return book


@read({FIRST: "wrong", SECOND: "wrong"}, {SECOND: f"in the cell of {FIRST}"})
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


@read(notes={FIRST: "cell's id"})
def an_exercise_renamed(path, book):
    cell_of(book, FIRST)["metadata"]["nbgrader"]["grade_id"] = "mine"
    return book


@read(
    {FIRST: "wrong", SECOND: "wrong"},
    judged={FIRST: "wrong", SECOND: "wrong"},
)
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


@read({FIRST: "wrong"}, judged={FIRST: "wrong"})
def a_syntax_error(path, book):
    cell_of(book, FIRST)["source"].append("\n    return (")
    return book


@read({FIRST: "wrong"}, judged={FIRST: "wrong"})
def tabs_among_spaces(path, book):
    cell_of(book, FIRST)["source"].append("\n    if 1:\n\tpass\n   x")
    return book


@read({FIRST: "wrong"}, judged={FIRST: "wrong"})
def an_expression_too_deep(path, book):
    cell_of(book, FIRST)["source"].append("\nx" + ".a" * 100_000)
    return book


@read({SECOND: "wrong"}, {FIRST: "%%time", SECOND: "%matplotlib inline"})
def magics(path, book):
    cell_of(book, FIRST)["source"].insert(0, "%%time\n")
    cell_of(book, SECOND)["source"].append("\n%matplotlib inline\n!ls\n")
    return book


@read(file_note="sdp-softmax")
def a_cell_of_another_chapter(path, book):
    book["cells"].append(cell_of(solved("sdp"), "sdp-softmax"))
    return book


# --- Python files ------------------------------------------------------------

WHOLE = dict.fromkeys(EXERCISES, "wrong")  # more than the solution


@read(WHOLE, suffix=".py")
def plain_python(path, book):
    return sources.solutions_path("gqa").read_bytes()


@read(WHOLE, suffix=".py")
def python_of_another_time(path, book):
    text = sources.solutions_path("gqa").read_text()
    return text.replace("\n", "\r").encode("utf-8-sig")


@read(
    {FIRST: "wrong"} | dict.fromkeys(EXERCISES[1:], "missing"),
    suffix=".py",
    judged={FIRST: "wrong"},
)
def python_with_a_syntax_error(path, book):
    return "def repeat_kv(x, n_rep):\n    return (\n\0"


@read(suffix=".py")
def percent_cells(path, book):
    lines = ["# ---\n# jupyter: {}\n# ---\n"]
    for cell in book["cells"]:
        about = json.dumps(cell["metadata"]["nbgrader"])
        lines += [f"# %% nbgrader={about}", "".join(cell["source"]), ""]
    return "\n".join(lines)


@read(notes=dict.fromkeys(EXERCISES, "by its name"), suffix=".py")
def made_by_nbconvert(path, book):
    lines = ["#!/usr/bin/env python", "# coding: utf-8", ""]
    for number, cell in enumerate(book["cells"]):
        lines += [f"# In[{number}]:", "", "", "".join(cell["source"]), ""]
    return "\n".join(lines)
