"""Represent the wrong answers that an exercise's check names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attn.exercises.edits import Variant


@dataclass(frozen=True, eq=False)
class Mistake(Variant):
    """A wrong answer, as an edit of the solution."""

    module: ClassVar[str] = __name__
