"""Recognise a dict of tensors whose names, not numbers, are wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

from attn.grading.checks.compare import alike
from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.diagnosis.kinds import Words, kind


@kind
def names_of_entries(evidence: Evidence, failure: Failure) -> Words | None:
    """A dict that lacks names, or has others."""
    got = failure.outcome.output
    expected = evidence.expected(failure.index).output
    if not isinstance(got, Mapping) or not isinstance(expected, Mapping):
        return None
    return None if got.keys() == expected.keys() else {}


@kind
def anothers_name(evidence: Evidence, failure: Failure) -> Words | None:
    """Entries of a dict that are right under another name."""
    got = failure.outcome.output
    expected = evidence.expected(failure.index).output
    if not isinstance(got, Mapping) or not isinstance(expected, Mapping):
        return None
    if got.keys() != expected.keys():
        return None
    wrong = [name for name in expected if not alike(got[name], expected[name])]
    found = {}
    for name in wrong:
        owners = [
            other
            for other, x in expected.items()
            if isinstance(x, Tensor) and alike(got[name], x)
        ]
        if not owners:
            return None
        found[_any_number(name)] = _any_number(owners[0])
    mine, theirs = next(iter(found.items()), ("", ""))
    return {"mine": mine, "theirs": theirs} if found else None


def _any_number(name: str) -> str:
    """Return a name with ``*`` for each number: one for all layers."""
    return re.sub(r"\b\d+\b", "*", str(name))
