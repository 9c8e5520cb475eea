"""Represent the wrong answers that an exercise's check names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from attn.exercises.edits import EditError, Variant, is_marked


@dataclass(frozen=True)
class Mistake(Variant):
    """A wrong answer, as an edit of the solution.

    Args:
        why: one paragraph that explains it and ends in a question.
    """

    why: str
    module: ClassVar[str] = __name__

    def merged(self, other: Mistake) -> Mistake | None:
        """Return both edits at once; None if they do not fit together."""
        if not (is_marked(self.code) and is_marked(other.code)):
            return None
        both = replace(
            self,
            name=f"{self.name}, and: {other.name}",
            code=f"{self.code}\n{other.code}",
            place=f"{self.place}, {other.name}",
        )
        try:
            _ = both.source
        except EditError:
            return None
        return both
