"""Submissions as platforms and their users leave them, in public reports.

``@handed_in`` marks a function that gets a solved chapter, demonstrations and
outputs included, and changes it; or returns a file's content, or several.
"""

import json
import re
from functools import partial

from attn.exercises import cells, sources
from tests.grading.classroom.damage.kinds import (
    EXERCISES,
    FIRST,
    SECOND,
    cell_of,
)

ALL = frozenset(EXERCISES)
SUBMISSIONS = {}  # by title: what makes it, and what passes, by file
IMPORTS = "import math\nimport torch\nfrom torch import Tensor, nn\n\n"
HEAD = IMPORTS + "from attn.grading import check\n\n"


def handed_in(name="05_gqa.ipynb", lost=(), passed=None):
    def mark(make):
        title = make.__name__.replace("_", " ")
        SUBMISSIONS[title] = make, passed or {name: ALL - {*lost}}
        return make

    return mark


def place(title, folder):
    make, passed = SUBMISSIONS[title]
    book = whole()
    made = make(book) or as_saved(book)
    files = made if isinstance(made, dict) else {[*passed][0]: made}
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        is_text = isinstance(content, str)
        path.write_bytes(content.encode() if is_text else content)


def whole():
    """Return a solved chapter, in which each cell's source is one text."""
    book = sources.notebook("gqa")
    for cell in book["cells"]:
        name = cells.exercise_id(cell)
        kept = "".join(cell["source"])
        cell["source"] = sources.solution(name) if name else kept
    return book


def as_saved(book):
    for cell in book["cells"]:
        cell["source"] = "".join(cell["source"]).splitlines(keepends=True)
    return json.dumps(book, ensure_ascii=False)


def code(source):
    return {"cell_type": "code", "metadata": {}, "source": source}


def answers(book):
    return [x for x in book["cells"] if cells.exercise_id(x)]


def checks(book):
    return [x for x in book["cells"] if cells.checked_id(x)]


def own_texts(book):
    own = answers(book) + checks(book)
    return [x["source"] for x in book["cells"] if x in own]


def above(book, source, of=FIRST, **other):
    at = book["cells"].index(cell_of(book, of))
    book["cells"].insert(at, code(source) | other)


def without_checks(book):
    return [x for x in book["cells"] if not cells.checked_id(x)]


LOOP = f"for name in {EXERCISES}:\n    check(name)"
MORE = "%matplotlib inline", "!ls\ntorch.cuda.synchronize()"
#: The cells that are left, by title.
CELLS = {
    "every cell twice": lambda x: [y for y in x["cells"] for _ in range(2)],
    "the notebook pasted below itself": lambda x: x["cells"] * 2,
    "all in one cell, with checks and magics": lambda x: [
        code("\n\n".join([IMPORTS, MORE[0], *own_texts(x), MORE[1]]))
    ],
    "checks deleted": without_checks,
    "checks in a loop at the end": lambda x: [*without_checks(x), code(LOOP)],
}
for title, left in CELLS.items():
    make = partial(lambda left, book: book.update(cells=left(book)), left)
    SUBMISSIONS[title] = make, {"05_gqa.ipynb": ALL}


@handed_in()
def the_stub_kept_above_a_copy_with_the_answer(book):
    for name in EXERCISES:
        marks = cell_of(book, name)["metadata"]
        above(book, sources.stub(name), name, metadata=marks)


@handed_in()
def the_answers_at_the_top_and_the_stubs_left_below(book):
    for cell in answers(book):
        above(book, IMPORTS + cell["source"])
        cell["source"] = sources.stub(cells.exercise_id(cell))


@handed_in()
def checks_commented_out(book):
    for cell in checks(book):
        cell["source"] = f"# {cell['source']}"


@handed_in()
def checks_in_the_cells_of_their_answers(book):
    book["cells"] = without_checks(book)
    for cell in answers(book):
        cell["source"] += f'\n\n\ncheck("{cells.exercise_id(cell)}")'


@handed_in(lost={FIRST, SECOND})
def answers_in_markdown_and_in_a_raw_cell(book):
    first, second = cell_of(book, FIRST), cell_of(book, SECOND)
    first["source"] = f"```python\n{first['source']}\n```"
    first["cell_type"], second["cell_type"] = "markdown", "raw"


@handed_in(lost={FIRST})
def spaces_that_do_not_break_from_a_pdf(book):
    cell = cell_of(book, FIRST)
    cell["source"] = cell["source"].replace("    ", "\xa0\xa0\xa0\xa0")


@handed_in(lost={SECOND})
def the_stubs_last_line_left_below_one_answer_and_above_another(book):
    last = "    raise NotImplementedError\n"
    cell_of(book, FIRST)["source"] += f"\n{last}"
    cell = cell_of(book, SECOND)
    cell["source"] = re.sub("(?m)^(?=    return)", last, cell["source"])


@handed_in(lost={FIRST})
def an_answer_imported_from_a_file_that_stayed_at_home(book):
    cell_of(book, FIRST)["source"] = "from my_gqa import repeat_kv"


@handed_in()
def last_years_chapter(book):
    own = answers(book) + checks(book)
    for cell in book["cells"]:
        if cell["cell_type"] == "code" and cell not in own:
            cell["source"] += "\n# 2025"


@handed_in()
def retyped_in_an_empty_notebook(book):
    book |= {"metadata": {}, "cells": [*map(code, [HEAD, *own_texts(book)])]}


@handed_in()
def nbgraders_marks_of_a_solution_kept(book):
    for cell in answers(book):
        before, end, last = cell["source"].rpartition("\n")
        marked = f"{before}\n    ### BEGIN SOLUTION{end}{last}"
        cell["source"] = f"{marked}\n    ### END SOLUTION"
        cell["metadata"]["nbgrader"]["checksum"] = "0" * 32


@handed_in()
def ottered(book):
    for n, cell in enumerate(checks(book)):
        cell["source"] = f'grader.check("q{n}")\n{cell["source"]}'
    start = 'import otter\ngrader = otter.Notebook("05_gqa.ipynb")'
    end = "# Save your notebook first!\ngrader.export(pdf=False)"
    book["cells"] = [code(start), *book["cells"], code(end)]


@handed_in()
def saved_by_deepnote(book):
    """Without lists of lines."""
    for cell in book["cells"]:
        kind = {"deepnote_cell_type": cell["cell_type"]}
        cell["metadata"] = {"cell_id": cell.pop("id")} | kind
    return json.dumps(book | {"nbformat_minor": 0})


@handed_in("notebook1f3c2a.ipynb")
def saved_by_kaggle(book):
    listing = """\
import numpy as np
import pandas as pd
import os
for dirname, _, filenames in os.walk('/kaggle/input'):
    for filename in filenames:
        print(os.path.join(dirname, filename))
train = pd.read_csv('/kaggle/input/gqa/train.csv')"""
    for cell in book["cells"]:
        del cell["id"]
        cell["metadata"] = {"_uuid": "8f2839f2", "trusted": True}
    book["cells"].insert(0, code(listing))
    book["nbformat_minor"] = 4


def colab(book):
    for cell in book["cells"]:
        cell["metadata"] |= {"id": cell.pop("id", "new"), "outputId": "a1b2"}
    book["metadata"] = {"colab": {"provenance": []}, "accelerator": "GPU"}
    book["nbformat_minor"] = 0


@handed_in("Kopie von Copy of 05_gqa.ipynb")
def a_copy_of_a_copy_without_metadata(book):
    for cell in book["cells"]:
        cell["metadata"] = {}
    colab(book)


@handed_in()
def forms(book):
    title = '#@title Exercise { display-mode: "form" }\n'
    field = 'n_heads = 8 #@param {type:"slider", min:1, max:64, step:1}\n'
    for cell in answers(book):
        cell["source"] = title + field + cell["source"]
        cell["metadata"]["cellView"] = "form"
    colab(book)


@handed_in()
def redirected_by_powershell(book):
    for cell in book["cells"]:
        cell["source"] = cell["source"].replace("\n", "\r\n")
    lines = json.dumps(book, ensure_ascii=False, indent=1)
    return lines.replace("\n", "\r\n").encode("utf-16")


@handed_in("05_gqa_FINAL_final (3)_réparé.ipynb")
def three_megabytes_stored_and_three_printed_by_every_answer(book):
    stream = {"output_type": "stream", "name": "stdout"}
    for cell in answers(book):
        cell["outputs"] = [stream | {"text": ["step 1: loss 0.14\n"] * 30_000}]
        cell["source"] += "\nfor i in range(30_000):\n    print('#' * 99)"
    kind = "application/vnd.jupyter.widget-state+json"
    states = {f"{i:032x}": {"state": {"value": "x" * 400}} for i in range(999)}
    book["metadata"]["widgets"] = {kind: {"state": states}}
    return as_saved(book).encode("utf-8-sig")


@handed_in(passed={"05_gqa.ipynb": set(), "05_gqa-Copy1.ipynb": ALL})
def the_original_untouched_beside_the_work_and_a_checkpoint(book):
    pristine = json.dumps(sources.notebook("gqa"))
    old = ".ipynb_checkpoints/05_gqa-checkpoint.ipynb"
    names = "05_gqa.ipynb", "05_gqa-Copy1.ipynb", old
    return dict(zip(names, (pristine, as_saved(book), pristine), strict=True))


@handed_in("05_gqa.py")
def a_script_of_nbconvert(book):
    lines = ["#!/usr/bin/env python\n# coding: utf-8\n"]
    magic = r"get_ipython().run_line_magic('\1', '\2')"
    for i, cell in enumerate(book["cells"]):
        if cell["cell_type"] == "code":
            source = re.sub(r"(?m)^%(\w+) ?(.*)$", magic, cell["source"])
            lines += [f"\n# In[{i}]:\n\n", source]
        else:
            lines.append(re.sub("(?m)^", "# ", cell["source"]))
    return "\n".join(lines)


@handed_in("gqa.py")
def a_script_of_databricks(book):
    parts = ["# Databricks notebook source", HEAD, *own_texts(book)]
    return "\n\n# COMMAND ----------\n\n# MAGIC %md\n# MAGIC x\n".join(parts)


@handed_in("05_gqa.py")
def cells_of_spyder(book):
    return "\n\n# %% mine\n".join([HEAD, *own_texts(book)])
