"""Name the kinds of mistakes that can be made in any exercise.

A kind is a line of ``kinds.md``: its key, its name, and a paragraph to the
learner that ends in a question. A function registered with ``kind`` has the
key for its name. It looks at one wrong case and returns the words that fill
the line's blanks, or None when the case is not of this kind. Nothing is
guessed: it compares all elements.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from attn.grading.checks.evidence import Evidence, Failure, Name
from attn.grading.diagnosis.distinguishing import distinctions

Words = dict[str, str]
Test = Callable[[Evidence, Failure], Words | list[Words] | None]

_tests: dict[str, Test] = {}

# Kinds whose words may differ from case to case, and are named together.
_JOINED = ("no_such_dtype", "half_precision", "no_gradient", "wrong_dtype")


def kind(function: Test) -> Test:
    """Register a test for the kind of its name."""
    _tests[function.__name__] = function
    return function


def named(key: str, **words: str) -> Name:
    """Return a line of ``kinds.md``, its blanks filled."""
    name, why = lines()[key]
    return Name(name.format(**words), why.format(**words))


@cache
def lines() -> dict[str, tuple[str, str]]:
    """Return the name and the paragraph of every kind, by key."""
    text = Path(__file__).with_suffix(".md").read_text("utf-8")
    parts = re.split(r"^## (\w+): ", text, flags=re.M)[1:]
    found = {}
    for key, rest in zip(parts[::2], parts[1::2], strict=True):
        name, _, why = rest.partition("\n")
        found[key] = name.strip(), " ".join(why.split())
    return found


def explained(evidence: Evidence) -> dict[Name, set[int]]:
    """Return the kinds that were seen, and the failing cases of each."""
    found: dict[Name, set[int]] = {}
    for key, test in _tests.items():
        seen: dict[int, list[Words]] = {}
        for i, failure in evidence.failing.items():
            words = test(evidence, failure)
            if words is not None:
                seen[i] = words if isinstance(words, list) else [words]
        if key in _JOINED and seen:
            each = [x[0] for x in seen.values()]
            joined = {
                field: " and ".join(sorted({x[field] for x in each}))
                for field in each[0]
            }
            seen = dict.fromkeys(seen, [joined])
        for i, alternatives in seen.items():
            for words in alternatives:
                found.setdefault(named(key, **words), set()).add(i)
    return found


def square_only(evidence: Evidence) -> Name | None:
    """Return whether the answer is right in square cases alone."""
    found = distinctions(evidence) or [""]
    for bad, good in _SQUARE:
        if found == [bad]:
            return named("only_when", good=good, bad=bad)
    counted = re.fullmatch(r"the first input has not (\d) ax[ei]s", found[0])
    return named("axes_counted", count=counted[1]) if counted else None


_SQUARE = (
    ("L is not S", "L = S"),
    ("D is not Dv", "D = Dv"),
    ("H is not Hkv", "H = Hkv"),
    ("B is more than 1", "B = 1"),
    ("H is more than 1", "H = 1"),
    ("an input is not contiguous", "the inputs are contiguous"),
)
