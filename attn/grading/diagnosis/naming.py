"""Name the mistake behind a wrong answer, or say that there is none to name.

An explanation is a prediction. A name is given when what it predicts, right or
wrong, is what the answer gives in every case that ran. What explains the first
wrong condition only is no name: the answer behaves like it there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Literal, TypeAlias

from attn.exercises.outcome import Forbidden
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.evidence import ENOUGH, Evidence, agree
from attn.grading.checks.inputs import input_size, named_tensors
from attn.grading.diagnosis import errors, result_changes
from attn.grading.diagnosis.kinds import Claim, Kind, Prediction, Words, kind

if TYPE_CHECKING:
    from attn.exercises.mistakes import Mistake

MOST_NAMES = 3  # for one answer
KINDS = {**errors.KINDS, **result_changes.KINDS}

# Kinds whose words may differ from case to case, and are named together.
_JOINED = ("no_such_dtype", "no_gradient", "wrong_dtype")

Name: TypeAlias = "Kind | Mistake"
_Alike = Literal["exactly", "in memory", "in numbers"]
Source: TypeAlias = "Callable[[Evidence], Sequence[Name]]"
"""Returns the names of an answer, as far as it can tell."""


@dataclass(frozen=True)
class Diagnosis:
    """The names of a wrong answer.

    Args:
        names: one, or several that cannot be told apart.
        everywhere: they explain every case; else the first wrong condition.
    """

    names: tuple[Name, ...] = ()
    everywhere: bool = True

    @property
    def name(self) -> str | None:
        """The name as the learner reads it; None if there is none."""
        return self.headline[1] if self.names and self.everywhere else None

    @property
    def headline(self) -> tuple[str, str]:
        """The beginning of the sentence that ends in the names, and they."""
        start = "this looks like"
        if not self.everywhere:
            start = "in this case it behaves like"
        return start, " — or: ".join(x.name for x in self.names)


def diagnose(evidence: Evidence, predicted: Source | None = None) -> Diagnosis:
    """Return the names that explain all that was observed.

    A result that no operation can look into has no name.

    Args:
        evidence: what was observed.
        predicted: returns the names of what is on no list; by default, of
            what the reference and the solution can be made to give.
    """
    error = evidence.failures[0].outcome.error
    if isinstance(error, Forbidden):
        return Diagnosis((kind(error.kind),))
    if isinstance(error, OutOfTime | NotImplementedError):
        return Diagnosis()
    with suppress(RuntimeError, TypeError, ValueError, IndexError):
        for source in (_listed, _recognised, predicted or _predicted):
            if names := source(evidence):
                return Diagnosis(tuple(names))
        names = _in_first_condition(evidence)
        return Diagnosis(tuple(names), everywhere=False)
    return Diagnosis()


def _recognised(evidence: Evidence) -> Sequence[Name]:
    """Return the first kind that is seen in every wrong case."""
    failures = evidence.failing.values()
    for key, test in KINDS.items():
        seen: list[list[Words]] = []
        for words in takewhile(bool, (test(evidence, f) for f in failures)):
            each = words if isinstance(words, list) else [words or {}]
            seen.append([x if isinstance(x, dict) else {} for x in each])
        if len(seen) < len(failures):
            continue
        common = [x for x in seen[0] if all(x in others for others in seen)]
        if key in _JOINED:
            (blank,) = seen[0][0]
            every = sorted({x[0][blank] for x in seen})
            common = [{blank: " and ".join(every)}]
        if common:
            return (kind(key, **common[0]),)
    return ()


def _predicted(evidence: Evidence) -> Sequence[Name]:
    """Return the first input for which the wrong result would be right.

    Else the kinds of change of the solution that explain every case: one; two
    that cannot be told apart; none if there are more.
    """
    from attn.grading.diagnosis import mutants
    from attn.grading.diagnosis.input_changes import input_changes

    names = [*islice(true(evidence, input_changes(evidence)), 1)]
    names = names or [*true(evidence, mutants.claims(evidence))]
    if kind("bound_left_out") in names:
        # What makes the other side small says less.
        names = [kind("bound_left_out")]
    return names if len(names) <= 2 else ()


def true(evidence: Evidence, claims: Iterable[Claim]) -> Iterator[Name]:
    """Yield the names of claims that agree with every case, each once.

    They are tried within a number of trials, and only where there is enough
    to compare: errors that read the same are no proof of the same mistake.
    """
    failing = evidence.failing
    if any(f.outcome.error is not None for f in failing.values()):
        return
    if evidence.telling < ENOUGH or evidence.within_rounding:
        return
    found: set[Name] = set()
    for x in islice(claims, evidence.trials):
        cases = [*failing, *evidence.passing]
        if x.name in found or not _agrees(evidence, x.predict, cases):
            continue
        if x.rival is None or not _agrees(evidence, x.rival, failing):
            found.add(x.name)
            yield x.name


def _agrees(
    evidence: Evidence, predict: Prediction, cases: Iterable[int]
) -> bool:
    """Return whether a prediction is what was observed, in each case.

    Where the answer is right, it may be the reference's result as well, which
    is rounded in another way.
    """
    for i in cases:
        predicted = None
        with suppress(Exception):  # a case may lack an input, or an axis
            predicted = predict(i)
        if predicted is None and i not in evidence.failing:
            continue
        observed = [evidence.outcomes[i]]
        if i not in evidence.failing:
            observed.append(evidence.expected(i))
        case, rtol = evidence.case(i), evidence.oracle.rtol(i)
        if predicted is None or not any(
            agree(x, predicted, case, rtol) for x in observed
        ):
            return False
    return True


def _listed(evidence: Evidence) -> Sequence[Name]:
    """Return the exercise's own mistakes that explain every case.

    The most alike count: with the same coins, and as large tensors. A mistake
    in the numbers may also be made with less memory than on the list.
    """
    cases = _cheap_first(evidence, [*evidence.failing, *evidence.passing])

    def explains(x: Mistake, alike: _Alike) -> bool:
        """Compare first where a mistake was wrong, or need not be run."""
        kept = len(evidence.oracle.kept.get(x, ()))
        ordered = sorted(cases, key=lambda i: (i >= kept, i != kept - 1))
        return all(_is_made(evidence, x, i, alike) for i in ordered)

    for alike in ("exactly", "in memory", "in numbers"):
        listed = evidence.exercise.mistakes
        if found := {x.name: x for x in listed if explains(x, alike)}:
            return [*found.values()][:MOST_NAMES]
    return ()


def _in_first_condition(evidence: Evidence) -> Sequence[Name]:
    """Return the mistake that explains the first wrong condition.

    The one that explains most wrong cases; or several that explain as many.
    """
    first, oracle = evidence.failures[0].case.condition, evidence.oracle
    ran = range(len(evidence.outcomes))
    cases = [i for i in ran if evidence.case(i).condition == first]
    # A few elements prove nothing; nor does NaN, which any may give.
    outputs = [evidence.outcomes[i].output for i in cases]
    tensors = [x for _, x in named_tensors(outputs)]
    if sum(int((~x.isnan()).sum()) for x in tensors) < ENOUGH:
        return ()
    if evidence.case(cases[0]).max_live is not None:
        cases += evidence.passing
    cases = _cheap_first(evidence, cases)
    explained = {
        x: sum(_is_made(evidence, x, i) for i in evidence.failing)
        for x in evidence.exercise.mistakes
        if all(_is_made(evidence, x, i) for i in cases)
        and not all(
            agree(oracle.mistaken(x, i), oracle.expected(i), oracle.cases[i])
            for i in cases
        )
    }
    most = max(explained.values(), default=0)
    best = {x.name: x for x, count in explained.items() if count == most}
    return [*best.values()] if len(best) <= MOST_NAMES else ()


def _cheap_first(evidence: Evidence, cases: Iterable[int]) -> list[int]:
    """Sort cases: wrong ones and small ones first, last those that measure
    memory. Of the wrong ones, the first condition is run in any case.
    """
    first = evidence.failures[0].case.condition

    def cost(i: int) -> tuple[bool, bool, bool, int, int]:
        case = evidence.case(i)
        is_right, is_later = i not in evidence.failing, case.condition != first
        size = input_size(case)
        return case.max_live is not None, is_right, is_later, size, i

    return sorted(cases, key=cost)


def _is_made(
    evidence: Evidence, mistake: Mistake, i: int, alike: _Alike = "in memory"
) -> bool:
    """Return whether a mistake gives in a case what the answer gives."""
    case, outcome = evidence.case(i), evidence.outcomes[i]
    mistaken = evidence.oracle.mistaken(mistake, i)
    one, other = outcome.side_effect, mistaken.side_effect
    is_effect = all(f.effect for f in evidence.failures)  # and no more
    if one and other and (alike == "exactly" or is_effect):
        if math.prod(one.largest) != math.prod(other.largest):
            return False
    elif alike == "in numbers" and other and other.kind == "memory":
        mistaken = replace(mistaken, side_effect=one)
    coins = 0.0 if alike == "exactly" else None  # else the case's
    return agree(outcome, mistaken, case, evidence.oracle.rtol(i), coins)
