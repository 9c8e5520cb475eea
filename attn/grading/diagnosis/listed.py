"""Compare an answer with the mistakes on the exercise's own list."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import chain

from attn.exercises.mistakes import Mistake
from attn.grading.checks.compare import alike
from attn.grading.checks.evidence import Evidence, agree
from attn.grading.checks.inputs import input_size, named_tensors
from attn.grading.checks.run import Outcome

MOST_NAMES = 3  # for one answer


class Listed:
    """The exercise's own list of mistakes, next to what was observed."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.mistakes = evidence.exercise.mistakes
        self.agrees = cache(self._agrees)

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
        outcome = evidence.outcomes[i]
        mistaken = evidence.oracle.mistaken(mistake, i)
        effect = mistaken.side_effect
        if not memory and effect and effect.kind == "memory":
            mistaken = replace(mistaken, side_effect=outcome.side_effect)
        case = case if rtol is None else replace(case, rtol=rtol)
        return agree(outcome, mistaken, case, evidence.oracle.rtol(i))

    def is_wrong(self, mistake: Mistake, i: int) -> bool:
        """Return whether a mistake is wrong in a case."""
        mistaken = self.evidence.oracle.mistaken(mistake, i)
        return _is_wrong(mistaken, self.evidence.expected(i))

    def everywhere(self) -> list[Mistake]:
        """Return the mistakes that explain every case.

        A mistake in the numbers may be made with less memory than on the
        list: that counts when nothing else does. Of those that toss coins,
        the ones with the same coins count first.
        """
        wrong, right = self.evidence.failing.keys(), self.evidence.passing
        # Those that in_first_condition compares: a mistake runs there once.
        first = wrong & self._first_condition()
        cases = self._cheap_first(first, wrong - first, right)
        for memory in (True, False):
            explaining = [
                x
                for x in self.mistakes
                if all(self.agrees(x, i, memory) for i in self._kept(x, cases))
            ]
            if len(explaining) > 1:
                explaining = self._as_large(explaining) or explaining
            if len(explaining) == 1:
                return explaining
            same_coins = [
                x
                for x in explaining
                if all(self._agrees(x, i, memory, 0.0) for i in cases)
            ]
            if explaining:
                return same_coins or explaining
        return []

    def _first_condition(self) -> list[int]:
        """Return the cases of the first condition in which it is wrong."""
        evidence = self.evidence
        first = evidence.failures[0].case.condition
        every = range(len(evidence.outcomes))
        return [i for i in every if evidence.case(i).condition == first]

    def _as_large(self, mistakes: list[Mistake]) -> list[Mistake]:
        """Return those whose largest tensors are as large as the answer's."""
        oracle, outcomes = self.evidence.oracle, self.evidence.outcomes
        return [
            x
            for x in mistakes
            if all(
                _largest(oracle.mistaken(x, i)) == _largest(outcomes[i])
                for i in self.evidence.failing
            )
        ]

    def _kept(self, mistake: Mistake, cases: list[int]) -> list[int]:
        """Put those first that a mistake need not be run on."""
        first = self.evidence.oracle.kept(mistake)
        return sorted(cases, key=lambda i: i >= first)

    def _cheap_first(self, *cases: Iterable[int]) -> list[int]:
        """Sort each group by size; those that measure memory come last."""
        case = self.evidence.case

        def size(i: int) -> tuple[int, int]:
            return input_size(case(i)), i

        small = (sorted(x, key=size) for x in cases)
        return sorted(
            chain(*small), key=lambda i: case(i).max_live is not None
        )

    def in_first_condition(self) -> list[Mistake]:
        """Return the mistake that explains the first wrong condition.

        The one that explains most wrong cases; or several that explain as
        many.
        """
        evidence, cases = self.evidence, self._first_condition()
        if _count_elements(evidence, cases) < 4:
            return []
        if evidence.case(cases[0]).max_live is not None:
            cases = self._cheap_first(evidence.passing, cases)
        else:  # in the order of everywhere, which has run the first
            wrong = evidence.failing.keys() & cases
            cases = self._cheap_first(wrong, {*cases} - wrong)
        agreeing = [
            x
            for x in self.mistakes
            if all(self.agrees(x, i) for i in cases)
            and any(self.is_wrong(x, i) for i in cases)
        ]
        if len(agreeing) > 1:
            explained = {
                x: sum(self.agrees(x, i) for i in evidence.failing)
                for x in agreeing
            }
            most = max(explained.values())
            agreeing = [x for x in agreeing if explained[x] == most]
        return agreeing if len(agreeing) <= MOST_NAMES else []


def _largest(outcome: Outcome) -> int:
    effect = outcome.side_effect
    return math.prod(effect.largest) if effect else 0


def _is_wrong(mistaken: Outcome, right: Outcome) -> bool:
    if mistaken.error is not None or mistaken.side_effect:
        return True
    if not alike(mistaken.output, right.output):
        return True
    grads = mistaken.grads
    return not all(alike(grads[n], x) for n, x in right.grads.items())


def _count_elements(evidence: Evidence, cases: Iterable[int]) -> int:
    """Count the elements of an answer's results: a few prove nothing.

    Nor does NaN, which different mistakes give alike.
    """
    outputs = [evidence.outcomes[i].output for i in cases]
    return sum(int((~x.isnan()).sum()) for _, x in named_tensors(outputs))
