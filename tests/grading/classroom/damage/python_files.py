"""Answers handed in as Python."""

import json

from attn.exercises import sources
from tests.grading.classroom.damage.kinds import (
    DAMAGE,
    EXERCISES,
    FIRST,
    Damage,
    read,
)


@read(suffix=".py")
def plain_python(book):
    return sources.solutions_path("gqa").read_bytes()


@read(suffix=".py")
def python_of_another_time(book):
    text = sources.solutions_path("gqa").read_text()
    return text.replace("\n", "\r").encode("utf-8-sig")


@read({FIRST: "wrong"} | dict.fromkeys(EXERCISES[1:], "missing"), suffix=".py")
def python_with_a_syntax_error(book):
    return "def repeat_kv(x, n_rep):\n    return (\n\0"


def percent(book):
    lines = ["# ---\n# jupyter: {}\n# ---\n"]
    for cell in book["cells"]:
        marks = json.dumps(cell["metadata"]["nbgrader"])
        lines += [f"# %% nbgrader={marks}", "".join(cell["source"]), ""]
    return "\n".join(lines)


@read(suffix=".py")
def percent_cells_with_another_formats_header(book):
    header = "# ---\n# jupyter: &a [*a, *a]\n# jupytext: {formats: marimo}"
    return percent(book).replace("# ---\n# jupyter: {}", header)


#: What is below the cells of a percent script.
BELOW = {
    "percent_cells": "",
    "percent_cells_with_a_damaged_mark": "# %% active=3\nx = 1\n",
    "percent_cells_with_an_endless_mark": "# %% a=" + "[1,=1," * 10_000,
    "too_many_percent_cells": "# %%\n" * 30_000,
}
for name, text in BELOW.items():
    DAMAGE[name] = Damage(lambda _, book, x=text: percent(book) + x, ".py")


@read(suffix=".py")
def made_by_nbconvert(book):
    lines = ["#!/usr/bin/env python", "# coding: utf-8", ""]
    for number, cell in enumerate(book["cells"]):
        lines += [f"# In[{number}]:", "", "", "".join(cell["source"]), ""]
    return "\n".join(lines)
