"""Honest notebooks with more in them than answers, in Markdown.

Each is a solved chapter in which the cells of one exercise are replaced. A
file is one block, in which ``## exercise · flags · title`` begins a notebook.
"""

import re
from dataclasses import dataclass
from inspect import getfile
from pathlib import Path

from attn.exercises import cells, sources
from tests.grading.classroom.damage.kinds import cell_of, solved

IMPORTS = """\
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn.grading import check
"""
_PLAIN = {"cell_type": "code", "metadata": {}}
_NOTEBOOK = re.compile(
    r"^## (\S+) · ((?:(?:again|waits|cheats|spoils) · )*)"
    r"([^\n]+)\n(.*?)(?=^## |^```$)",
    re.MULTILINE | re.DOTALL,
)
_CELL = re.compile(r"^# %% ?(.*)\n", re.MULTILINE)


@dataclass(frozen=True)
class Accident:
    """Describe what a learner wrote for one exercise.

    Args:
        family: the name of its file.
        exercise: whose answer it is.
        title: what is in it, in a line.
        text: of its cells; without a mark, of one, the exercise's.
        flags: ``again``: the cells ran in another order than the notebook's.
    """

    family: str
    exercise: str
    title: str
    text: str
    flags: str = ""

    @classmethod
    def every(cls):
        """Return all of the class's folder, in the order of its files."""
        return [
            cls(path.stem, exercise, title, text.strip("\n") + "\n", flags)
            for path in sorted(Path(getfile(cls)).parent.glob("*.md"))
            for exercise, flags, title, text in _NOTEBOOK.findall(
                path.read_text("utf-8")
            )
        ]

    def notebook(self):
        """Return a solved notebook with this in it."""
        book = solved(self.exercise.partition("-")[0])
        at = book["cells"].index(cell_of(book, self.exercise))
        pristine, check = book["cells"][at : at + 2]
        kinds = {"": _PLAIN, "exercise": pristine}
        marked = "# %%" in self.text
        text = self.text if marked else f"# %% exercise\n{self.text}"
        new = []
        _, *parts = _CELL.split(text)
        for mark, source in zip(parts[::2], parts[1::2], strict=True):
            source = {"source": filled(source, self.exercise)}
            if mark == "check":
                new.append(check)
            elif mark in kinds:
                new.append(kinds[mark] | source)
            else:
                cell_of(book, mark).update(source)
        if check not in new:
            own = [i for i, x in enumerate(new) if cells.exercise_id(x)]
            new.insert(own[-1] + 1, check)
        book["cells"][at : at + 2] = new
        book["cells"].insert(0, _PLAIN | {"source": IMPORTS})
        return book

    def __str__(self):
        return f"{self.exercise}: {self.title}"


def filled(source, exercise):
    """Return a cell's source with the book's answer where it has its mark."""
    return source.replace("# ANSWER\n", f"{sources.solution(exercise)}\n")
