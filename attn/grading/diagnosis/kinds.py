"""Name the kinds of mistakes that can be made in any exercise.

A kind is a line of ``kinds.md``: its key, its name, and a paragraph to the
learner that ends in a question. A test of it looks at one wrong case, and
returns the words that fill the line's blanks; True, where it has none; and
what is false when the case is not of this kind. It compares all elements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.diagnosis.distinguishing import Distinction, distinctions

Words = dict[str, str]
Test = Callable[[Evidence, Failure], Words | list[Words] | bool | None]

# Kinds whose words may differ from case to case, and are named together.
_JOINED = ("no_such_dtype", "half_precision", "no_gradient", "wrong_dtype")


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


def explained(
    evidence: Evidence, tests: Mapping[str, Test]
) -> dict[Kind, set[int]]:
    """Return the kinds that were seen, and the failing cases of each."""
    cases: dict[Kind, set[int]] = {}
    for key, test in tests.items():
        seen: dict[int, list[Words]] = {}
        for i, failure in evidence.failing.items():
            if words := test(evidence, failure):
                words = {} if words is True else words
                seen[i] = words if isinstance(words, list) else [words]
        if key in _JOINED and seen:
            each = [alternatives[0] for alternatives in seen.values()]
            joined = {
                blank: " and ".join(sorted({words[blank] for words in each}))
                for blank in each[0]
            }
            seen = dict.fromkeys(seen, [joined])
        for i, alternatives in seen.items():
            for words in alternatives:
                cases.setdefault(kind(key, **words), set()).add(i)
    return cases


def special_case_only(evidence: Evidence) -> Kind | None:
    """Name an answer that is right in one special case, a square one say."""
    every = distinctions(evidence)
    if not every:
        return None
    first = every[0]
    if len(every) == 1 and first in _RIGHT_ONLY_WHEN:
        good = _RIGHT_ONLY_WHEN[first]
        return kind("only_when", good=good, bad=first.text)
    if (first.subject, first.relation) == ("axes", "!="):
        return kind("axes_counted", count=str(first.other))
    return None


_RIGHT_ONLY_WHEN = {
    Distinction("length", "L", "!=", "S"): "L = S",
    Distinction("length", "D", "!=", "Dv"): "D = Dv",
    Distinction("length", "H", "!=", "Hkv"): "H = Hkv",
    Distinction("length", "B", ">", 1): "B = 1",
    Distinction("length", "H", ">", 1): "H = 1",
    Distinction("strides"): "the inputs are contiguous",
}
