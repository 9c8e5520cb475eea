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
from typing import TYPE_CHECKING, NamedTuple

from attn.exercises.outcome import Outcome
from attn.grading.checks.evidence import Evidence, Failure

if TYPE_CHECKING:
    from attn.exercises.mistakes import Mistake

Words = dict[str, str]

#: Looks at one wrong case, and compares all of its elements. It returns the
#: words of the kind's blanks, or several; True, where the kind has no blanks;
#: and what is false when the case is not of this kind.
Test = Callable[[Evidence, Failure], Words | list[Words] | bool | None]

#: What an answer gives in a case; None where that is not said.
Prediction = Callable[[int], Outcome | None]


class Kind(NamedTuple):
    """A kind of mistake.

    Args:
        name: as the learner reads it.
        why: the paragraph to the learner.
    """

    name: str
    why: str


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
    name, why = lines()[key]
    return Kind(name.format(**words), why.format(**words))


@cache
def lines() -> dict[str, tuple[str, str]]:
    """Return the name and the paragraph of every kind, by key."""
    text = Path(__file__).with_suffix(".md").read_text("utf-8")
    sections = re.findall(r"^## (\w+): (.+)\n((?:(?!## ).*\n?)*)", text, re.M)
    return {key: (name, " ".join(why.split())) for key, name, why in sections}
