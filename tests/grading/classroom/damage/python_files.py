"""Answers handed in as Python."""

import json

from attn.exercises import sources
from tests.grading.classroom.damage.kinds import (
    EXERCISES,
    FIRST,
    read,
)

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
