"""Files in which nothing can be graded."""

import json
import os
import pickle
import zipfile

from attn.exercises import sources
from tests.grading.classroom.damage.kinds import (
    FIRST,
    unreadable,
)

#: What each holds, and part of the message.
CONTENTS = {
    "empty": (b"", "empty"),
    "blank": (" \n\t\r\n", "empty"),
    "python_in_a_notebook": (sources.solution(FIRST), "no JSON"),
    "noise": (bytes(range(256)) * 40, "no JSON"),
    "a_number": ("9" * 5000, "got a number"),
    "not_a_number": ("NaN", "got nothing"),
    "nested": ("[" * 100_000, "nested too deeply"),
    "millions_of_lists": (
        "[" + "[]," * 2_000_000 + "[]]",
        "millions of values",
    ),
    "a_web_page": (
        "\n<!DOCTYPE html>\n<html><body>05_gqa.ipynb</body></html>",
        "web page",
    ),
    "empty_python": (b"", "empty", ".py"),
    "python_without_end": ("# %%\n" * 300_000, "a million", ".py"),
    "another_program": (
        "import os\nprint(os.getcwd())\n",
        "no exercise",
        ".py",
    ),
}
for _name, (_content, *_message) in CONTENTS.items():
    unreadable(*_message)(_content, _name)


@unreadable("breaks off")
def truncated(path, book):
    text = json.dumps(book)
    return text[: len(text) // 2]


@unreadable("breaks off")
def without_its_last_brace(path, book):
    return json.dumps(book)[:-1]


@unreadable("got a list")
def a_list(path, book):
    return json.dumps([book])


@unreadable("nested too deeply")
def nested_in_metadata(path, book):
    text = json.dumps(book | {"metadata": 0})
    deep = '{"a":' * 100_000 + "0" + "}" * 100_000
    return text.replace('"metadata": 0', f'"metadata": {deep}')


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
