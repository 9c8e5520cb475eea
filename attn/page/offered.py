"""List the exercises that a page has, and give what their tasks may use."""

from __future__ import annotations

from attn.data.book import root
from attn.exercises import sources
from attn.exercises.given import words
from attn.exercises.spec import Exercise, chapter
from attn.page.encode import CannotStore

FOLDER = "book/page/data"
_IMPORTS = """\
import math
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
"""


def offered() -> list[str]:
    """Return the exercises that a page has, in the order of the book."""
    text = (root() / FOLDER / "exercises.txt").read_text("utf-8")
    return text.split()


def given(exercise: Exercise) -> str:
    """Return what a task may use: imports, and the chapter's earlier answers.

    Raises:
        CannotStore: it may use what a page does not have.
    """
    own = [sources.solution(exercise.id), sources.stub(exercise.id)]
    own += [x.source for x in (*exercise.mistakes, *exercise.equivalents)]
    used, texts = words("\n".join(own)), list[str]()
    key, known = exercise.id.partition("-")[0], offered()
    earlier = [x.name for x in chapter(key)]
    for name in reversed(earlier[: earlier.index(exercise.name)]):
        if name in used or f"{key}-{name}" in known:
            texts.insert(0, text := sources.solution(f"{key}-{name}"))
            used |= words(text) if name in used else set()
    lacks = {*exercise.given} & used - {"Callable", "Iterable"}
    if lacks:
        raise CannotStore(f"a page lacks {', '.join(sorted(lacks))}")
    return "\n\n\n".join([_IMPORTS, *texts]) + "\n"
