"""Honest notebooks with more in them than answers, in Markdown.

Each is a solved chapter in which the cells of one exercise are replaced.
"""

import copy
import re
from dataclasses import dataclass
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
_ACCIDENT = re.compile(
    r"^## (?P<exercise>\S+) · (?P<again>again · )?(?P<title>[^\n]+)\n\n"
    r"```ipython\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_CELL = re.compile(r"^# %%(.*)\n", re.MULTILINE)


@dataclass(frozen=True)
class Accident:
    """Describe what a learner wrote for one exercise.

    Args:
        family: the name of its file.
        exercise: whose answer it is.
        title: what is in it, in a line.
        text: of its cells.
        again: whether the cells ran in another order than the notebook's.
    """

    family: str
    exercise: str
    title: str
    text: str
    again: bool

    @property
    def key(self):
        """The chapter's key."""
        return self.exercise.partition("-")[0]

    def notebook(self, book=None):
        """Return a solved notebook, or another, with this in it."""
        book = book or solved(self.key)
        check = self._check(book)
        book["cells"].remove(check)
        at = book["cells"].index(cell_of(book, self.exercise))
        pristine = book["cells"].pop(at)
        new = []
        text = self.text if "# %%" in self.text else f"# %%\n{self.text}"
        for mark, source in self._parts(text):
            if mark in ("", "exercise"):
                is_own = mark or "# %% exercise" not in text
                kept = pristine if is_own else _PLAIN
                new.append(copy.deepcopy(kept) | {"source": source})
            elif mark == "check":
                new.append(check)
            else:
                cell_of(book, mark)["source"] = source
        if check not in new:
            own = [i for i, x in enumerate(new) if cells.exercise_id(x)]
            new.insert(own[-1] + 1, check)
        book["cells"][at:at] = new
        book["cells"].insert(0, _PLAIN | {"source": IMPORTS})
        return book

    def _check(self, book):
        return next(
            x for x in book["cells"] if cells.checked_id(x) == self.exercise
        )

    def _parts(self, text):
        _, *parts = _CELL.split(text)
        for mark, source in zip(parts[::2], parts[1::2], strict=True):
            yield mark.strip(), filled(source, self.exercise)

    def __str__(self):
        return f"{self.exercise}: {self.title}"


def filled(source, exercise):
    """Return a cell's source with the book's answer where it has its mark."""
    return source.replace("# ANSWER\n", f"{sources.solution(exercise)}\n")


def accidents():
    """Return all of them, in the order of the files."""
    return [
        Accident(
            path.stem,
            found["exercise"],
            found["title"],
            found["text"],
            bool(found["again"]),
        )
        for path in sorted(Path(__file__).parent.glob("*.md"))
        for found in _ACCIDENT.finditer(path.read_text("utf-8"))
    ]
