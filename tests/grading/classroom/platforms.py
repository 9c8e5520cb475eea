"""Submissions as platforms and their users leave them, in public reports.

``@handed_in`` marks a function that gets a solved chapter, demonstrations and
outputs included, and returns it changed; or bytes, or several files by name.
"""

import json
import re
from dataclasses import dataclass

from attn.exercises import cells, sources
from tests.grading.classroom.damage.kinds import (
    EXERCISES,
    FIRST,
    SECOND,
    THIRD,
    cell_of,
)

ALL = frozenset(EXERCISES)
SUBMISSIONS = []
IMPORTS = "import math\nimport torch\nfrom torch import Tensor, nn\n\n"
CHECK = "from attn.grading import check\n\n"


@dataclass(frozen=True)
class HandedIn:
    """Describe a submission: how it is made, and what passes, by file."""

    make: object
    passed: object
    name: str

    def files(self):
        made = self.make(whole())
        several = isinstance(made, dict) and "nbformat" not in made
        return made if several else {self.name: made}

    def place(self, folder):
        for name, content in self.files().items():
            if isinstance(content, dict):
                content = json.dumps(content, ensure_ascii=False)
            if isinstance(content, str):
                content = content.encode()
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def expected(self):
        if isinstance(self.passed, dict):
            return self.passed
        return {self.name: set(self.passed)}

    def __str__(self):
        return self.make.__name__.replace("_", " ")


def handed_in(passed=ALL, name="05_gqa.ipynb"):
    def mark(make):
        SUBMISSIONS.append(HandedIn(make, passed, name))
        return make

    return mark


def whole():
    notebook = sources.notebook("gqa")
    for cell in notebook["cells"]:
        if name := cells.exercise_id(cell):
            cell["source"] = sources.solution(name).splitlines(keepends=True)
    return notebook


def text(cell):
    return "".join(cell["source"])


def code(source):
    return {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "source": source,
    }


def answers(book):
    return [x for x in book["cells"] if cells.exercise_id(x)]


def checks(book):
    return [x for x in book["cells"] if cells.checked_id(x)]


def own(book):
    return [x for x in book["cells"] if x in answers(book) + checks(book)]


def above(book, source, of=FIRST):
    at = book["cells"].index(cell_of(book, of))
    book["cells"].insert(at, code(source))


def without_checks(book):
    kept = [x for x in book["cells"] if not cells.checked_id(x)]
    return book | {"cells": kept}


# --- What learners do to cells -----------------------------------------------


@handed_in()
def every_cell_twice(book):
    return book | {"cells": [x for x in book["cells"] for _ in range(2)]}


@handed_in()
def the_notebook_pasted_below_itself(book):
    return book | {"cells": book["cells"] * 2}


@handed_in()
def the_stub_kept_above_a_copy_with_the_answer(book):
    for cell in answers(book):
        stub = cell | {"source": sources.stub(cells.exercise_id(cell))}
        book["cells"].insert(book["cells"].index(cell), stub)
    return book


@handed_in()
def all_in_one_cell_with_checks_and_magics(book):
    source = "\n\n".join(map(text, own(book)))
    magics = "%matplotlib inline\n", "\n!ls\ntorch.cuda.synchronize()"
    source = source.join((IMPORTS + magics[0], magics[1]))
    return book | {"cells": [code(source)]}


@handed_in()
def the_answers_at_the_top_and_the_stubs_left_below(book):
    for cell in answers(book):
        above(book, IMPORTS + text(cell))
        cell["source"] = sources.stub(cells.exercise_id(cell))
    return book


@handed_in()
def checks_deleted(book):
    return without_checks(book)


@handed_in()
def checks_commented_out(book):
    for cell in checks(book):
        cell["source"] = "# " + text(cell)
    return book


@handed_in()
def checks_in_one_loop_at_the_end(book):
    book = without_checks(book)
    loop = f"for name in {EXERCISES}:\n    check(name)"
    return book | {"cells": [*book["cells"], code(loop)]}


@handed_in()
def checks_in_the_cells_of_their_answers(book):
    for cell in answers(book):
        cell["source"].append(f'\n\ncheck("{cells.exercise_id(cell)}")')
    return without_checks(book)


@handed_in()
def a_class_split_at_a_method(book):
    cell = cell_of(book, THIRD)
    cell["source"], _, tail = text(cell).partition("\n    def forward(")
    below = "def forward(" + re.sub("(?m)^    ", "", tail)
    below += "\nGroupedQueryAttention.forward = forward"
    book["cells"].insert(book["cells"].index(cell) + 1, code(below))
    return book


@handed_in(ALL - {FIRST, SECOND})
def answers_in_markdown_and_in_a_raw_cell(book):
    first, second = cell_of(book, FIRST), cell_of(book, SECOND)
    first["source"] = f"```python\n{text(first)}\n```"
    first["cell_type"], second["cell_type"] = "markdown", "raw"
    return book


@handed_in(ALL - {FIRST})
def spaces_that_do_not_break_from_a_pdf(book):
    cell = cell_of(book, FIRST)
    cell["source"] = text(cell).replace("    ", "\xa0\xa0\xa0\xa0")
    return book


@handed_in(ALL - {SECOND})
def the_stubs_last_line_left_below_one_answer_and_above_another(book):
    last = "    raise NotImplementedError"
    cell_of(book, FIRST)["source"].append(f"\n{last}")
    cell = cell_of(book, SECOND)
    cell["source"] = re.sub("(?m)^(?=    return)", f"{last}\n", text(cell))
    return book


@handed_in(ALL - {FIRST})
def an_answer_imported_from_a_file_that_stayed_at_home(book):
    cell_of(book, FIRST)["source"] = "from my_gqa import repeat_kv"
    return book


@handed_in()
def tests_that_fail_below_every_answer(book):
    for cell in answers(book):
        name = cells.exercise_id(cell).partition("-")[2]
        cell["source"].append(f"\n\nassert {name}(1) == 2, 'from a chat'\n")
        cell["source"].append("print('all tests passed')")
    return book


@handed_in()
def names_used_again_at_the_end(book):
    names = (x.partition("-")[2] for x in EXERCISES)
    book["cells"] += [code(" = ".join(names) + " = None"), code("%reset -f")]
    return book


@handed_in()
def helpers_in_the_last_cell(book):
    cell_of(book, FIRST)["source"] = (
        "def repeat_kv(x, n_rep):\n    return copies(x, n_rep)"
    )
    helper = "def copies(x, n):\n    return x.repeat_interleave(n, dim=-3)"
    book["cells"].append(code(helper))
    return book


@handed_in()
def endless_demonstrations(book):
    above(book, "n = 0\nwhile True:\n    n += 1")
    above(book, "n = 0\nwhile True:\n    print(n)\n    n += 1", of=THIRD)
    cell_of(book, SECOND)["source"].append("\nimport time\ntime.sleep(1e6)")
    return book


@handed_in()
def last_years_chapter(book):
    for cell in book["cells"]:
        if cell["cell_type"] == "code" and cell not in own(book):
            cell["source"].append("\n# 2025")
    return book


@handed_in()
def retyped_in_an_empty_notebook(book):
    kept = [code(text(x)) for x in own(book)]
    return book | {"metadata": {}, "cells": [code(IMPORTS + CHECK), *kept]}


# --- nbgrader, Otter ---------------------------------------------------------


@handed_in()
def nbgraders_marks_of_a_solution_kept(book):
    for cell in answers(book):
        lines = text(cell).split("\n")
        lines.insert(len(lines) - 1, "    ### BEGIN SOLUTION")
        cell["source"] = "\n".join([*lines, "    ### END SOLUTION"])
        cell["metadata"]["nbgrader"]["checksum"] = "0" * 32
    return book


@handed_in()
def ottered(book):
    start = 'import otter\ngrader = otter.Notebook("05_gqa.ipynb")'
    for cell in checks(book):
        cell["source"] = [f'grader.check("q{len(text(cell))}")\n', text(cell)]
    end = "# Save your notebook first!\ngrader.export(pdf=False)"
    return book | {"cells": [code(start), *book["cells"], code(end)]}


# --- CoCalc, Deepnote, Kaggle ------------------------------------------------


@handed_in()
def saved_by_cocalc(book):
    for i, cell in enumerate(book["cells"]):
        cell["id"] = f"{i * 7919 % 16**6:06x}"
        cell["metadata"] |= {"collapsed": False, "cocalc": {"outputs": {}}}
    book["metadata"]["kernelspec"] = {"name": "sage-10.3", "language": "sage"}
    return book


@handed_in()
def saved_by_deepnote(book):
    for cell in book["cells"]:
        cell["metadata"] = {
            "cell_id": cell.pop("id"),
            "deepnote_cell_type": cell["cell_type"],
        }
        cell["source"] = text(cell)
    return book | {"nbformat_minor": 0}


@handed_in(name="notebook1f3c2a.ipynb")
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
    return book | {"nbformat_minor": 4}


# --- Colab -------------------------------------------------------------------


def colab(book):
    for cell in book["cells"]:
        cell["metadata"] |= {"id": cell.pop("id", "new"), "outputId": "a1b2"}
    book["metadata"] = {"colab": {"provenance": []}, "accelerator": "GPU"}
    return book | {"nbformat_minor": 0}


@handed_in(name="Kopie von Copy of 05_gqa.ipynb")
def a_copy_of_a_copy_without_metadata(book):
    for cell in book["cells"]:
        cell["metadata"] = {}
    return colab(book)


@handed_in()
def forms(book):
    for cell in answers(book):
        title = '#@title Exercise { display-mode: "form" }\n'
        field = 'n_heads = 8 #@param {type:"slider", min:1, max:64, step:1}\n'
        cell["source"] = [title, field, *cell["source"]]
        cell["metadata"]["cellView"] = "form"
    return colab(book)


@handed_in()
def mounts_installs_and_uploads(book):
    setup = """\
!nvidia-smi
!pip install -q attn-book wandb==0.16 git+https://github.com/a/b
from google.colab import drive, files
drive.mount('/content/drive', force_remount=True)
%cd "/content/drive/My Drive/Colab Notebooks"
data = next(iter(files.upload().values()))"""
    above(book, setup)
    cell_of(book, SECOND)["source"].insert(0, "!pip install einops\n")
    cell_of(book, THIRD)["source"].append("\nfiles.download('gqa.pt')")
    return colab(book)


@handed_in()
def the_runtime_restarted_in_a_cell(book):
    above(book, "!pip install -U torch\nimport os\nos.kill(os.getpid(), 9)")
    above(book, "exit()", of=THIRD)
    return colab(book)


MAGICS = (
    "%%time\n",
    "%%capture --no-stderr out\n",
    "%matplotlib inline\n%load_ext autoreload\n%autoreload 2\n",
    "%%capture\nimport wandb\n",
    "%env CUDA_VISIBLE_DEVICES=0\n%pip install torch\n",
)


@handed_in()
def magics_above_and_below_answers(book):
    for name, magic in zip(EXERCISES, MAGICS, strict=True):
        cell_of(book, name)["source"].insert(0, magic)
    cell_of(book, SECOND)["source"].append("\n%timeit -n1 -r1 repeat_kv\n?id")
    return book


# --- Files, names, outputs ---------------------------------------------------


@handed_in()
def redirected_by_powershell(book):
    lines = json.dumps(book, ensure_ascii=False, indent=1)
    return lines.replace("\n", "\r\n").encode("utf-16")


@handed_in(name="05_gqa_FINAL_final (3)_réparé.ipynb")
def three_megabytes_stored_and_three_printed_by_every_answer(book):
    stream = {"output_type": "stream", "name": "stdout"}
    for cell in answers(book):
        cell["outputs"] = [stream | {"text": ["step 1: loss 0.14\n"] * 30_000}]
        cell["source"].append("\nfor i in range(30_000):\n    print('#' * 99)")
    kind = "application/vnd.jupyter.widget-state+json"
    states = {f"{i:032x}": {"state": {"value": "x" * 400}} for i in range(999)}
    book["metadata"]["widgets"] = {kind: {"state": states}}
    return json.dumps(book).encode("utf-8-sig")


@handed_in({"05_gqa.ipynb": set(), "05_gqa-Copy1.ipynb": ALL})
def the_original_untouched_beside_the_work_and_a_checkpoint(book):
    pristine = sources.notebook("gqa")
    old = ".ipynb_checkpoints/05_gqa-checkpoint.ipynb"
    names = "05_gqa.ipynb", "05_gqa-Copy1.ipynb", old
    return dict(zip(names, (pristine, book, pristine), strict=True))


# --- Python files ------------------------------------------------------------


@handed_in(name="05_gqa.py")
def a_script_of_nbconvert(book):
    lines = ["#!/usr/bin/env python\n# coding: utf-8\n"]
    magic = r"get_ipython().run_line_magic('\1', '\2')"
    for i, cell in enumerate(book["cells"]):
        if cell["cell_type"] == "code":
            source = re.sub(r"(?m)^%(\w+) ?(.*)$", magic, text(cell))
            lines += [f"\n# In[{i}]:\n\n", source]
        else:
            lines.append(re.sub("(?m)^", "# ", text(cell)))
    return "\n".join(lines)


@handed_in(name="gqa.py")
def a_script_of_databricks(book):
    parts = ["# Databricks notebook source", IMPORTS + CHECK]
    parts += map(text, own(book))
    return "\n\n# COMMAND ----------\n\n# MAGIC %md\n# MAGIC x\n".join(parts)


@handed_in(name="05_gqa.py")
def cells_of_spyder(book):
    return "\n\n# %% mine\n".join([IMPORTS + CHECK, *map(text, own(book))])
