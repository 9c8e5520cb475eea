"""Choose the failure that a refusal shows."""

from __future__ import annotations

from attn.grading.checks.evidence import Failure
from attn.grading.checks.inputs import input_size

_FEW = 4  # elements, from which a place can be told


def most_telling(failures: list[Failure]) -> Failure:
    """Return a small failure from which a place can be told.

    It is of the first wrong condition, or of the next if the results of the
    first have one or two elements only; with right elements, if it can be.
    """
    first = failures[0].case.condition
    for condition in dict.fromkeys(f.case.condition for f in failures):
        own = [f for f in failures if f.case.condition == condition]
        telling = [f for f in own if _size(f) >= _FEW]
        if telling:
            return min(telling, key=lambda f: (_all_wrong(f), _cost(f)))
    own = [f for f in failures if f.case.condition == first]
    return min(own, key=_cost)


def _cost(failure: Failure) -> int:
    return input_size(failure.case)


def _size(failure: Failure) -> int:
    """Return how many elements tell a place; any number, of another kind."""
    wrong = failure.problem.wrong
    return _FEW if wrong is None else wrong.numel()


def _all_wrong(failure: Failure) -> bool:
    wrong = failure.problem.wrong
    return wrong is not None and bool(wrong.all())
