"""Answers handed in as Python."""

import json

from attn.exercises import sources
from tests.grading.classroom.damage.kinds import (
    DAMAGE,
    EXERCISES,
    FIRST,
    Damage,
)

SOLUTIONS = sources.solutions_path("gqa").read_text()
HEADER = "# ---\n# jupyter: {}\n# ---\n"
OTHER_HEADER = "# ---\n# jupyter: &a [*a, *a]\n# jupytext: {formats: marimo}"


def percent(header=HEADER, below=""):
    """Return what writes a percent script."""

    def write(book):
        lines = [header]
        for cell in book["cells"]:
            marks = json.dumps(cell["metadata"]["nbgrader"])
            lines += [f"# %% nbgrader={marks}", "".join(cell["source"]), ""]
        return "\n".join([*lines, below])

    return write


def by_nbconvert(book):
    lines = ["#!/usr/bin/env python", "# coding: utf-8", ""]
    for number, cell in enumerate(book["cells"]):
        lines += [f"# In[{number}]:", "", "", "".join(cell["source"]), ""]
    return "\n".join(lines)


FILES = {
    "plain_python": SOLUTIONS,
    "python_of_another_time": SOLUTIONS.replace("\n", "\r").encode(
        "utf-8-sig"
    ),
    "percent_cells": percent(),
    "percent_cells_with_another_formats_header": percent(OTHER_HEADER),
    "a_damaged_percent_mark": percent(below="# %% active=3\nx = 1\n"),
    "an_endless_percent_mark": percent(below="# %% a=" + "[1,=1," * 10_000),
    "too_many_percent_cells": percent(below="# %%\n" * 30_000),
    "made_by_nbconvert": by_nbconvert,
}
DAMAGE |= {x: Damage(made, ".py") for x, made in FILES.items()}
DAMAGE["python_with_a_syntax_error"] = Damage(
    "def repeat_kv(x, n_rep):\n    return (\n\0",
    ".py",
    status=dict.fromkeys(EXERCISES, "missing") | {FIRST: "wrong"},
)
