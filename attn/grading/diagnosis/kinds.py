"""Hold the kinds of mistakes that can be made in any exercise, and claims.

A kind is a line of ``kinds.md``: its key, its name, and a paragraph to the
learner that ends in a question.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from attn.exercises.mistakes import Mistake
from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.checks.run import Outcome

Words = dict[str, str]

#: Looks at one wrong case, and compares all of its elements. It returns the
#: words of the kind's blanks, or several; True, where the kind has no blanks;
#: and what is false when the case is not of this kind.
Test = Callable[[Evidence, Failure], Words | list[Words] | bool | None]

#: What an answer gives in a case; None where that is not said.
Prediction = Callable[[int], Outcome | None]


@dataclass(frozen=True)
class Kind:
    """A kind of mistake.

    Args:
        key: of its line in ``kinds.md``.
        words: of the line's blanks: (blank, word).
    """

    key: str
    words: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The name, its blanks filled."""
        return lines()[self.key][0].format(**dict(self.words))

    @property
    def why(self) -> str:
        """The paragraph to the learner, its blanks filled."""
        return lines()[self.key][1].format(**dict(self.words))


@dataclass(frozen=True)
class Claim:
    """An explanation, which is a prediction.

    Args:
        name: of the mistake that the answer makes if the claim is true.
        predict: returns what the answer then gives in a case.
        rival: predicts what another cause would give: where that is as
            true, the claim proves nothing.
    """

    name: Kind | Mistake
    predict: Prediction
    rival: Prediction | None = None


def kind(key: str, **words: str) -> Kind:
    """Return a kind with the words of its blanks."""
    return Kind(key, tuple(sorted(words.items())))


@cache
def lines() -> dict[str, tuple[str, str]]:
    """Return the name and the paragraph of every kind, by key."""
    text = Path(__file__).with_suffix(".md").read_text("utf-8")
    sections = re.split(r"^## (\w+): ", text, flags=re.M)[1:]
    by_key = {}
    for key, section in zip(sections[::2], sections[1::2], strict=True):
        name, _, why = section.partition("\n")
        by_key[key] = name.strip(), " ".join(why.split())
    return by_key
