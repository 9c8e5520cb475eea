"""Files in which nothing can be graded."""

import json
import os
import pickle

from attn.exercises import sources
from tests.grading.classroom.damage.kinds import DAMAGE, FIRST, Damage


def unmerged(book):
    text = json.dumps(book, indent=1)
    half = len(text) // 2
    return f"{text[:half]}\n<<<<<<< HEAD\n=======\n>>>>>>> b\n{text[half:]}"


def code(characters, times):
    cell = {"cell_type": "code", "source": "#" * characters, "metadata": {}}
    return json.dumps({"cells": [cell] * times})


#: By the message of the error: content, or what returns it.
NOTEBOOKS = {
    "empty": {"empty": b"", "blank": " \n\t\r\n"},
    "breaks off": {
        "truncated": lambda book: json.dumps(book)[:2000],
        "without_its_last_brace": lambda book: json.dumps(book)[:-1],
    },
    "no JSON": {
        "python_in_a_notebook": sources.solution(FIRST),
        "noise": bytes(range(256)) * 40,
    },
    "nested too deeply": {"nested": '{"cells": [], "a":' + "[" * 100_000},
    "millions of values": {"millions_of_lists": f"[{'[],' * 2_000_000}[]]"},
    "no list of cells": {
        "cells_in_a_dict": '{"cells": {"0": {}}}',
        "no_cells": '{"metadata": {}}',
        "a_list": lambda book: json.dumps([book]),
        "a_number": "9" * 5000,
        "not_a_number": "NaN",
    },
    "at most 10000": {"too_many_cells": code(9, times=20_000)},
    "at most a million": {"code_without_end": code(90_000, times=20)},
    "no exercise": {"of_another_course": code(9, times=3)},
    "zip archive": {"zipped": b"PK\x03\x04"},
    "never loaded": {"pickled": pickle.dumps({})},
    "web page": {
        "a_web_page": "\n<!DOCTYPE html>\n<html><body>gqa.ipynb</body></html>"
    },
    "conflict markers": {"unmerged": unmerged},
}
PYTHON = {
    "empty": {"empty_python": b""},
    "262,144 characters": {
        "python_without_end": "# %%\n" * 300_000,
        "fields_of_a_text": f"x = f'{'{1}' * 90_000}'",  # took minutes
        "statements_in_a_line": "a = 1;" * 90_000,
    },
    "no exercise": {"another_program": "import os\nprint(os.getcwd())\n"},
}
ANSWERS = sources.solutions_path("gqa")
#: By the message: what makes it at a path.
PLACES = {
    "pipe": {"a_pipe": os.mkfifo},
    "folder": {"a_folder": os.mkdir},
    "symbolic link": {
        "a_link_to_a_device": lambda path: path.symlink_to("/dev/zero"),
        "a_link_to_itself": lambda path: path.symlink_to(path.name),
        "a_link_to_somebodys_answers": lambda path: path.symlink_to(ANSWERS),
    },
    "Clear its outputs": {  # and takes no room on the disk
        "a_hundred_megabytes": lambda path: (
            path.touch() or os.truncate(path, 100 * 2**20)
        ),
    },
}
for suffix, by_message in ((".ipynb", NOTEBOOKS), (".py", PYTHON)):
    for message, files in by_message.items():
        DAMAGE |= {x: Damage(files[x], suffix, message) for x in files}
for message, files in PLACES.items():
    DAMAGE |= {x: Damage(message=message, at=files[x]) for x in files}
