"""Represent the wrong answers that an exercise's check names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attn.exercises.edits import Variant


@dataclass(frozen=True, eq=False)
class Mistake(Variant):
    """A wrong answer, as an edit of the solution.

    Args:
        why: one paragraph that explains it and ends in a question.
    """

    why: str
    module: ClassVar[str] = __name__
