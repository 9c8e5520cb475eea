"""Name the mistake behind a wrong answer, or say that there is none to name.

An explanation is a prediction. A name is given when what it predicts, right or
wrong, is what the answer gives in every case that ran. What explains the first
wrong condition only is no name: the answer behaves like it there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, islice, takewhile

from attn.exercises.mistakes import Mistake
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.evidence import ENOUGH, Evidence, agree
from attn.grading.checks.forbidden import Forbidden
from attn.grading.checks.inputs import input_size, named_tensors
from attn.grading.checks.run import Outcome
from attn.grading.diagnosis import errors, mutants, result_changes
from attn.grading.diagnosis.axes import special_case
from attn.grading.diagnosis.input_changes import input_changes
from attn.grading.diagnosis.kinds import Claim, Kind, Prediction, Words, kind

MOST_NAMES = 3  # for one answer
KINDS = {**errors.KINDS, **result_changes.KINDS}

# Kinds whose words may differ from case to case, and are named together.
_JOINED = ("no_such_dtype", "half_precision", "no_gradient", "wrong_dtype")

Name = Kind | Mistake


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

    @property
    def lines(self) -> list[str]:
        """Return what the learner reads: the names, and a paragraph each."""
        if not self.names:
            return []
        return [": ".join(self.headline), *(x.why for x in self.names)]


def diagnose(evidence: Evidence) -> Diagnosis:
    """Return the names that explain all that was observed.

    A result that no operation can look into has no name.
    """
    try:
        return _diagnosis(evidence)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return Diagnosis()


def _diagnosis(evidence: Evidence) -> Diagnosis:
    error = evidence.failures[0].outcome.error
    if isinstance(error, Forbidden):
        return Diagnosis((kind(error.kind),))
    if isinstance(error, OutOfTime | NotImplementedError):
        return Diagnosis()
    listed = Listed(evidence)
    if mistakes := listed.everywhere():
        return Diagnosis(tuple(mistakes[:MOST_NAMES]))
    for source in (_recognised, special_case, _other_input, _mutants):
        if names := source(evidence):
            return Diagnosis(names)
    return Diagnosis(tuple(listed.in_first_condition()), everywhere=False)


def _recognised(evidence: Evidence) -> tuple[Name, ...]:
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
            blanks = {
                blank: " and ".join(sorted({x[0][blank] for x in seen}))
                for blank in seen[0][0]
            }
            common = [blanks]
        if common:
            return (kind(key, **common[0]),)
    return ()


def _other_input(evidence: Evidence) -> tuple[Name, ...]:
    """Return the first input for which the wrong result would be right."""
    return tuple(islice(_true(evidence, input_changes(evidence)), 1))


def _mutants(evidence: Evidence) -> tuple[Name, ...]:
    """Return the kinds of change of the solution that explain every case.

    One; two that cannot be told apart; none if there are more.
    """
    names = tuple(_true(evidence, mutants.claims(evidence)))
    if kind("bound_left_out") in names:
        # What makes the other side small says less.
        names = (kind("bound_left_out"),)
    return names if len(names) <= 2 else ()


def _true(evidence: Evidence, claims: Iterable[Claim]) -> Iterator[Name]:
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
        predicted, observed = predict(i), [evidence.outcomes[i]]
        if i not in evidence.failing:
            if predicted is None:
                continue
            observed.append(evidence.expected(i))
        case, rtol = evidence.case(i), evidence.oracle.rtol(i)
        if predicted is None or not any(
            agree(x, predicted, case, rtol) for x in observed
        ):
            return False
    return True


class Listed:
    """The exercise's own list of mistakes, next to what was observed."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.mistakes = evidence.exercise.mistakes
        self.mistaken = evidence.oracle.mistaken
        self.agrees = cache(self._agrees)
        first = evidence.failures[0].case.condition
        self._first_condition = [
            i
            for i in range(len(evidence.outcomes))
            if evidence.case(i).condition == first
        ]

    def _agrees(
        self,
        mistake: Mistake,
        i: int,
        memory: bool = True,
        rtol: float | None = None,
    ) -> bool:
        """Return whether a mistake gives in a case what the answer gives.

        Args:
            mistake: the mistake.
            i: the case.
            memory: whether it must hold as much memory, too.
            rtol: what is forgiven to coins, instead of the case's own.
        """
        evidence, case = self.evidence, self.evidence.case(i)
        outcome, mistaken = evidence.outcomes[i], self.mistaken(mistake, i)
        effect = mistaken.side_effect
        if not memory and effect and effect.kind == "memory":
            mistaken = replace(mistaken, side_effect=outcome.side_effect)
        case = case if rtol is None else replace(case, rtol=rtol)
        return agree(outcome, mistaken, case, evidence.oracle.rtol(i))

    def everywhere(self) -> list[Mistake]:
        """Return the mistakes that explain every case.

        A mistake in the numbers may be made with less memory than on the
        list: that counts when nothing else does. Of several, those count
        whose largest tensors are as large, then those with the same coins.
        """
        wrong, right = self.evidence.failing.keys(), self.evidence.passing
        # Those that in_first_condition compares: a mistake runs there once.
        first = wrong & self._first_condition
        cases = self._cheap_first(first, wrong - first, right)

        def explains(x: Mistake, memory: bool, rtol: float | None) -> bool:
            """Compare first where a mistake need not be run."""
            kept = len(self.evidence.oracle.kept.get(x, []))
            ordered = sorted(cases, key=lambda i: i >= kept)
            return all(self.agrees(x, i, memory, rtol) for i in ordered)

        for memory in (True, False):
            found = [x for x in self.mistakes if explains(x, memory, None)]
            same_coins = partial(explains, memory=memory, rtol=0.0)
            for test in (self._is_as_large, same_coins):
                if len(found) > 1:
                    found = [x for x in found if test(x)] or found
            if found:
                return found
        return []

    def _is_as_large(self, mistake: Mistake) -> bool:
        """Return whether its largest tensors are as large as the answer's."""
        return all(
            _largest(self.mistaken(mistake, i)) == _largest(f.outcome)
            for i, f in self.evidence.failing.items()
        )

    def _cheap_first(self, *cases: Iterable[int]) -> list[int]:
        """Sort each group by size; those that measure memory come last."""
        case = self.evidence.case
        small = (
            sorted(x, key=lambda i: (input_size(case(i)), i)) for x in cases
        )
        return sorted(
            chain(*small), key=lambda i: case(i).max_live is not None
        )

    def in_first_condition(self) -> list[Mistake]:
        """Return the mistake that explains the first wrong condition.

        The one that explains most wrong cases; or several that explain as
        many.
        """
        evidence, cases = self.evidence, self._first_condition
        outputs = [evidence.outcomes[i].output for i in cases]
        # A few elements prove nothing; nor does NaN, which any may give.
        tensors = [x for _, x in named_tensors(outputs)]
        if sum(int((~x.isnan()).sum()) for x in tensors) < ENOUGH:
            return []
        if evidence.case(cases[0]).max_live is not None:
            cases = self._cheap_first(evidence.passing, cases)
        else:  # in the order of everywhere, which has run the first
            wrong = evidence.failing.keys() & cases
            cases = self._cheap_first(wrong, {*cases} - wrong)
        agreeing = {
            x: sum(self.agrees(x, i) for i in evidence.failing)
            for x in self.mistakes
            if all(self.agrees(x, i) for i in cases)
            and any(self._is_wrong(x, i) for i in cases)
        }
        most = max(agreeing.values(), default=0)
        best = [x for x, explained in agreeing.items() if explained == most]
        return best if len(best) <= MOST_NAMES else []

    def _is_wrong(self, mistake: Mistake, i: int) -> bool:
        mistaken, right = self.mistaken(mistake, i), self.evidence.expected(i)
        return not agree(mistaken, right, self.evidence.case(i))


def _largest(outcome: Outcome) -> int:
    effect = outcome.side_effect
    return math.prod(effect.largest) if effect else 0
