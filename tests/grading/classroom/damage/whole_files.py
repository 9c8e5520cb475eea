"""Files in which nothing can be graded."""

import json
import os
import pickle
import zipfile

from attn.exercises import sources
from tests.grading.classroom.damage.kinds import DAMAGE, FIRST, Damage


def nested_in_metadata(path, book):
    text = json.dumps(book | {"metadata": 0})
    deep = '{"a":' * 100_000 + "0" + "}" * 100_000
    return text.replace('"metadata": 0', f'"metadata": {deep}')


def of_another_course(path, book):
    cell = {"cell_type": "code", "source": "def f(): pass", "metadata": {}}
    return book | {"cells": [cell] * 3}


def a_hundred_megabytes(path, book):
    path.write_text(json.dumps(book))
    os.truncate(path, 100 * 2**20)  # and takes no room on the disk


def zipped(path, book):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("05_gqa.ipynb", json.dumps(book))


def unmerged(path, book):
    text = json.dumps(book, indent=1)
    half = len(text) // 2
    return f"{text[:half]}\n<<<<<<< HEAD\n=======\n>>>>>>> b\n{text[half:]}"


def link(target):
    return lambda path, book: path.symlink_to(target or path.name)


#: By the message of the error: content, or what writes or returns it.
def code_of(characters):
    return {"cell_type": "code", "source": "#" * characters, "metadata": {}}


NOTEBOOKS = {
    "empty": {"empty": b"", "blank": " \n\t\r\n"},
    "breaks off": {
        "truncated": lambda _, book: json.dumps(book)[:2000],
        "without_its_last_brace": lambda _, book: json.dumps(book)[:-1],
    },
    "no JSON": {
        "python_in_a_notebook": sources.solution(FIRST),
        "noise": bytes(range(256)) * 40,
    },
    "got a list": {"a_list": lambda _, book: json.dumps([book])},
    "got a number": {"a_number": "9" * 5000, "not_a_number": "NaN"},
    "nested too deeply": {
        "nested": "[" * 100_000,
        "nested_in_metadata": nested_in_metadata,
    },
    "millions of values": {
        "millions_of_lists": lambda *_: f"[{'[],' * 2_000_000}[]]"
    },
    "got 5": {"format_5": lambda _, book: book | {"nbformat": 5}},
    "got an object": {
        "cells_in_a_dict": lambda _, book: (
            book | {"cells": dict(enumerate(book["cells"]))}
        )
    },
    "got nothing": {
        "no_cells": lambda _, book: book.pop("cells") and book,
    },
    "at most 10000": {
        "too_many_cells": lambda _, book: (
            book | {"cells": book["cells"] * 2000}
        )
    },
    "at most a million": {
        "code_without_end": lambda _, book: (
            book | {"cells": book["cells"] + 20 * [code_of(90_000)]}
        )
    },
    "no exercise": {"of_another_course": of_another_course},
    "Clear its outputs": {"a_hundred_megabytes": a_hundred_megabytes},
    "zip archive": {"zipped": zipped},
    "never loaded": {"pickled": lambda _, book: pickle.dumps(book)},
    "web page": {
        "a_web_page": "\n<!DOCTYPE html>\n<html><body>gqa.ipynb</body></html>"
    },
    "conflict markers": {"unmerged": unmerged},
    "pipe": {"a_pipe": lambda path, _: os.mkfifo(path)},
    "symbolic link": {
        "a_link_to_a_device": link("/dev/zero"),
        "a_link_to_itself": link(None),
        "a_link_to_somebodys_answers": link(sources.solutions_path("gqa")),
    },
    "folder": {"a_folder": lambda path, _: path.mkdir()},
}
PYTHON = {
    "empty": {"empty_python": b""},
    "a million": {"python_without_end": "# %%\n" * 300_000},
    "262,144 characters": {
        "fields_of_a_text": f"x = f'{'{1}' * 90_000}'",  # took minutes
        "statements_in_a_line": "a = 1;" * 90_000,
    },
    "no exercise": {"another_program": "import os\nprint(os.getcwd())\n"},
}
for suffix, by_message in ((".ipynb", NOTEBOOKS), (".py", PYTHON)):
    for message, files in by_message.items():
        DAMAGE |= {x: Damage(files[x], suffix, message) for x in files}
