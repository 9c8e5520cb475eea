"""Answers handed in as Python."""

import json

from attn.exercises import sources
from tests.grading.classroom.damage.kinds import (
    EXERCISES,
    FIRST,
    read,
)


@read(suffix=".py")
def plain_python(path, book):
    return sources.solutions_path("gqa").read_bytes()


@read(suffix=".py")
def python_of_another_time(path, book):
    text = sources.solutions_path("gqa").read_text()
    return text.replace("\n", "\r").encode("utf-8-sig")


@read({FIRST: "wrong"} | dict.fromkeys(EXERCISES[1:], "missing"), suffix=".py")
def python_with_a_syntax_error(path, book):
    return "def repeat_kv(x, n_rep):\n    return (\n\0"


def percent(book):
    lines = ["# ---\n# jupyter: {}\n# ---\n"]
    for cell in book["cells"]:
        marks = json.dumps(cell["metadata"]["nbgrader"])
        lines += [f"# %% nbgrader={marks}", "".join(cell["source"]), ""]
    return "\n".join(lines)


@read(suffix=".py")
def percent_cells(path, book):
    return percent(book)


@read(suffix=".py")
def percent_cells_with_another_formats_header(path, book):
    header = "# ---\n# jupyter: &a [*a, *a]\n# jupytext: {formats: marimo}"
    return percent(book).replace("# ---\n# jupyter: {}", header)


@read(suffix=".py")
def percent_cells_with_a_damaged_mark(path, book):
    return percent(book) + "# %% active=3\nx = 1\n"


@read(suffix=".py")
def percent_cells_with_an_endless_mark(path, book):
    return percent(book) + "# %% a=" + "[1,=1," * 10_000


@read(suffix=".py")
def too_many_percent_cells(path, book):
    return percent(book) + "# %%\n" * 30_000


@read(suffix=".py")
def made_by_nbconvert(path, book):
    lines = ["#!/usr/bin/env python", "# coding: utf-8", ""]
    for number, cell in enumerate(book["cells"]):
        lines += [f"# In[{number}]:", "", "", "".join(cell["source"]), ""]
    return "\n".join(lines)
