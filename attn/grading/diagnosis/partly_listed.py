"""Find listed mistakes that explain a part of what was observed.

Some of the cases, all of them but for NaN, or all of them together with
another mistake.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import torch
from torch import Tensor

from attn.exercises.mistakes import Mistake
from attn.grading.checks.compare import alike
from attn.grading.checks.evidence import Evidence, agree
from attn.grading.checks.inputs import named_tensors
from attn.grading.diagnosis.distinguishing import (
    Distinction,
    distinguishing_inputs,
    in_words,
)
from attn.grading.diagnosis.listed import MOST_NAMES, Listed, count_elements

_FOR_NAN = (0.0, -math.inf)  # numbers that take the place of NaN


@dataclass(frozen=True)
class Limit:
    """The cases in which a mistake is what the answer does.

    Args:
        relation: of these cases to the conditions, or to the inputs.
        conditions: of the check.
        inputs: properties of the cases' inputs.
    """

    relation: Literal["everywhere", "only when", "not when"] = "everywhere"
    conditions: tuple[str, ...] = ()
    inputs: tuple[Distinction, ...] = ()

    @property
    def text(self) -> str:
        """The limit in words that follow the name."""
        if self.relation == "everywhere":
            return ""
        when = in_words(self.inputs) or "; ".join(self.conditions)
        return f"but {self.relation} {when}"


@dataclass(frozen=True)
class Match:
    """A mistake, the failing cases that it explains, and its exceptions.

    Args:
        mistake: the mistake.
        cases: the failing cases in which it is wrong as the answer is.
        exceptions: cases in which it is wrong, and not as the answer is.
    """

    mistake: Mistake
    cases: frozenset[int]
    exceptions: frozenset[int]


def matches(listed: Listed, end: float) -> Iterator[Match]:
    """Yield the mistakes that explain some failing cases.

    Args:
        listed: the list of mistakes.
        end: the time, of ``time.process_time``, at which to stop.
    """
    evidence = listed.evidence

    def explains(mistake: Mistake, i: int) -> bool:
        # One that does no harm there agrees with whatever is nearly right.
        return listed.agrees(mistake, i) and listed.is_wrong(mistake, i)

    one_a_condition = {
        f.case.condition: i for i, f in reversed(evidence.failing.items())
    }
    # In a second call a mistake may be wrong for another reason.
    first_calls = [
        i for i in range(len(evidence.outcomes)) if not evidence.case(i).before
    ]
    for mistake in listed.mistakes:
        if time.process_time() > end:
            return
        if any(explains(mistake, i) for i in one_a_condition.values()):
            cases = frozenset(
                i for i in evidence.failing if explains(mistake, i)
            )
            exceptions = (
                i
                for i in first_calls
                if i not in cases and listed.is_wrong(mistake, i)
            )
            yield Match(mistake, cases, frozenset(exceptions))


def nearly_everywhere(
    evidence: Evidence, matches: Iterable[Match]
) -> tuple[list[Mistake], Limit]:
    """Return the mistake that holds but for a few conditions, and those.

    It explains every wrong case, or three times as many as not. There are
    several when they explain the same cases.
    """
    limits = {x: limit for x in matches if (limit := _limit(evidence, x))}
    most = max((len(x.cases) for x in limits), default=0)
    best = [x for x in limits if len(x.cases) == most]
    explanations = {(x.cases, limits[x]) for x in best}
    if len(explanations) != 1 or len(best) > MOST_NAMES:
        return [], Limit()
    return [x.mistake for x in best], limits[best[0]]


def _limit(evidence: Evidence, match: Match) -> Limit | None:
    """Return where a mistake holds; None if that is not clear."""
    cases, exceptions = match.cases, match.exceptions
    unexplained = set(evidence.failing) - cases
    enough = count_elements(evidence, cases) >= 8 and len(cases) >= 2
    if not enough or len(cases) < 3 * len(unexplained):
        return None
    outside = _conditions(evidence, exceptions | unexplained)
    inside = _conditions(evidence, cases)
    if not outside:
        return Limit()
    if not unexplained and (inputs := distinguishing_inputs(evidence)):
        return Limit("only when", inputs=tuple(inputs))
    if {*outside} & {*inside}:
        return None
    if len(outside) <= 3 and len(cases) >= 3 * len(exceptions):
        return Limit("not when", outside)
    if not unexplained and len(inside) <= 2:
        return Limit("only when", inside)
    return None


def _conditions(evidence: Evidence, cases: Iterable[int]) -> tuple[str, ...]:
    conditions = (evidence.case(i).condition for i in sorted(cases))
    return tuple(dict.fromkeys(conditions))


def without_nan(listed: Listed, end: float) -> Mistake | None:
    """Return the mistake whose NaNs the answer replaces by a number."""
    evidence = listed.evidence
    for failure in evidence.failures:
        problem = failure.problem
        if problem.kind != "value" or not failure.values:
            return None
        if problem.part.kind == "gradient":
            return None
    cases = [*evidence.failing, *evidence.passing]
    for mistake in listed.mistakes:
        if time.process_time() > end:
            return None
        if all(_is_without_nan(evidence, mistake, i) for i in cases):
            return mistake
    return None


def _is_without_nan(evidence: Evidence, mistake: Mistake, i: int) -> bool:
    """Return whether an outcome is a mistake's but for its NaNs."""
    outcome = evidence.outcomes[i]
    mistaken = evidence.oracle.mistaken(mistake, i)
    if mistaken.error is not None or outcome.error is not None:
        return False
    a = [x for _, x in named_tensors(outcome.output)]
    b = [x for _, x in named_tensors(mistaken.output)]
    if [x.shape for x in a] != [x.shape for x in b]:
        return False
    has_nan = any(x.isnan().any() for x in b)
    return bool(has_nan or i not in evidence.failing) and all(
        any(replaces_nan(x, y, number) for number in _FOR_NAN)
        for x, y in zip(a, b, strict=True)
    )


def replaces_nan(got: Tensor, other: Tensor, number: float) -> bool:
    """Return whether the number, no other, is where the other has NaN."""
    nan = other.isnan()
    filled = torch.where(nan, number, other)
    return bool((got[nan] == number).all()) and alike(got, filled)


def merged(listed: Listed, end: float) -> tuple[Mistake, Mistake] | None:
    """Return two mistakes that explain every case when made at once."""
    evidence = listed.evidence
    cases = [*evidence.failing, *evidence.passing]
    for first, second in combinations(listed.mistakes, 2):
        if time.process_time() > end:
            return None
        if any(
            listed.is_wrong(first, i) != listed.is_wrong(second, i)
            for i in evidence.passing[:4]
        ):
            continue
        both = first.merged(second)
        if both is not None and all(
            agree(
                evidence.outcomes[i],
                evidence.oracle.run(both, i),
                evidence.case(i),
                evidence.oracle.rtol(i),
            )
            for i in cases
        ):
            return first, second
    return None
