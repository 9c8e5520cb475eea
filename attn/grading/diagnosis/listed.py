"""Compare an answer with the mistakes on the exercise's own list."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import chain, combinations
from typing import Any

import torch
from torch import Tensor

from attn.exercises.mistakes import Mistake
from attn.grading.checks.compare import alike
from attn.grading.checks.evidence import Evidence, Name, agree
from attn.grading.checks.inputs import named_tensors
from attn.grading.diagnosis.distinguishing import distinguishing_inputs

_NUMBERS = (0.0, -math.inf)  # that take the place of NaN
_MOST = 3  # names for one answer


class Listed:
    """The exercise's own list of mistakes, next to what was observed."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.mistakes = evidence.exercise.mistakes
        self.agrees = cache(self._agrees)
        self._seen: list[tuple[Mistake, set[int], list[int]]] = []

    def _agrees(
        self,
        wrong: Mistake,
        i: int,
        memory: bool = True,
        rtol: float | None = None,
    ) -> bool:
        evidence, case = self.evidence, self.evidence.case(i)
        outcome, other = evidence.outcomes[i], evidence.oracle.wrong(wrong, i)
        if not memory and other.side_effect.startswith("at its peak"):
            other = replace(other, side_effect=outcome.side_effect)
        case = case if rtol is None else replace(case, rtol=rtol)
        return agree(outcome, other, case, evidence.oracle.part(i))

    def everywhere(self) -> list[Mistake]:
        """Return the mistakes that explain every case.

        A mistake in the numbers may be made with less memory than on the
        list: that counts when nothing else does. Of those that toss coins,
        the ones with the same coins count first.
        """
        ran = self._cheap_first(self.evidence.failing, self.evidence.passing)
        for memory in (True, False):
            found = [
                x
                for x in self.mistakes
                if all(self.agrees(x, i, memory) for i in self._kept(x, ran))
            ]
            if len(found) == 1:
                return found
            same_coins = [
                x
                for x in found
                if all(self._agrees(x, i, memory, 0.0) for i in ran)
            ]
            if found:
                return same_coins or found
        return []

    def _kept(self, wrong: Mistake, cases: list[int]) -> list[int]:
        """Put those first that a mistake need not be run on."""
        keeps = self.evidence.oracle.keeps
        return sorted(cases, key=lambda i: not keeps(wrong, i))

    def _cheap_first(self, *cases: Iterable[int]) -> list[int]:
        """Put those in which memory is measured, which takes time, last."""
        case = self.evidence.case
        return sorted(
            chain(*cases), key=lambda i: case(i).max_live is not None
        )

    def shares(self, end: float) -> dict[Name | Mistake, set[int]]:
        """Return the failing cases of the mistakes that explain only some.

        A mistake counts when the answer gives what it gives wherever it is
        wrong itself.
        """
        found: dict[Name | Mistake, set[int]] = {}
        for wrong, mine in self._touched(end):
            exceptions = self._exceptions(wrong, mine)
            self._seen.append((wrong, mine, exceptions))
            if not exceptions:
                found[wrong] = mine
        return found

    def _touched(self, end: float) -> Iterator[tuple[Mistake, set[int]]]:
        """Yield the mistakes that agree in some failing case, and those."""
        failing = self.evidence.failing
        conditions = {
            f.case.condition: i for i, f in reversed(failing.items())
        }
        for wrong in self.mistakes:
            if time.process_time() > end:
                return
            if any(self._explains(wrong, i) for i in conditions.values()):
                yield wrong, {i for i in failing if self._explains(wrong, i)}

    def _explains(self, wrong: Mistake, i: int) -> bool:
        """Return whether a mistake is wrong in a case as the answer is.

        One that does no harm there agrees with whatever is nearly right.
        """
        return self.agrees(wrong, i) and self._is_wrong(wrong, i)

    def _exceptions(self, wrong: Mistake, mine: set[int]) -> list[int]:
        """Return where a mistake is wrong, and not as the answer is.

        In a second call it may be wrong for another reason.
        """
        ran = range(len(self.evidence.outcomes))
        rest = [
            i
            for i in ran
            if i not in mine and not self.evidence.case(i).before
        ]
        return [i for i in rest if self._is_wrong(wrong, i)]

    def nearly(self) -> tuple[list[Mistake], str]:
        """Return the mistake that holds but for a few conditions, and those.

        It explains every wrong case, or three times as many as not; and
        ``shares`` has come across it. There are several when they explain
        the same cases.
        """
        evidence, found = self.evidence, []
        failing = set(evidence.failing)
        for wrong, mine, exceptions in self._seen:
            left = failing - mine
            telling = sum(
                x.numel()
                for i in mine
                for _, x in named_tensors(evidence.outcomes[i].output)
            )
            if telling < 8 or len(mine) < 2 or len(mine) < 3 * len(left):
                continue
            conditions = self._conditions({*exceptions, *left})
            if not conditions:
                limit = ""
            elif not left and (text := distinguishing_inputs(evidence)):
                limit = f"but only when {text}"
            elif conditions & self._conditions(mine):
                continue
            elif len(conditions) <= 3 and len(mine) >= 3 * len(exceptions):
                limit = "but not when " + "; ".join(conditions)
            elif not left and len(self._conditions(mine)) <= 2:
                limit = "but only when " + "; ".join(self._conditions(mine))
            else:
                continue
            found.append((wrong, mine, limit))
        most = max((len(mine) for _, mine, _ in found), default=0)
        found = [x for x in found if len(x[1]) == most]
        limits = {(*sorted(mine), limit) for _, mine, limit in found}
        if len(limits) != 1 or len(found) > _MOST:
            return [], ""
        return [x for x, _, _ in found], found[0][2]

    def without_nan(self, end: float) -> Mistake | None:
        """Return the mistake whose NaNs the answer replaces by a number."""
        evidence = self.evidence
        for failure in evidence.failures:
            problem = failure.problem
            of_gradient = problem.name.startswith("the gradient")
            if problem.kind != "value" or of_gradient or not failure.values:
                return None
        cases = [*evidence.failing, *evidence.passing]
        for wrong in self.mistakes:
            if time.process_time() > end:
                return None
            if all(self._filled(wrong, i) for i in cases):
                return wrong
        return None

    def _filled(self, wrong: Mistake, i: int) -> bool:
        """Return whether an outcome is a mistake's but for its NaNs."""
        evidence = self.evidence
        outcome, other = evidence.outcomes[i], evidence.oracle.wrong(wrong, i)
        if other.error is not None or outcome.error is not None:
            return False
        a = [x for _, x in named_tensors(outcome.output)]
        b = [x for _, x in named_tensors(other.output)]
        if [x.shape for x in a] != [x.shape for x in b]:
            return False
        nan = any(x.isnan().any() for x in b)
        return bool(nan or i not in evidence.failing) and all(
            any(_is_filled(x, y, n) for n in _NUMBERS)
            for x, y in zip(a, b, strict=True)
        )

    def _conditions(self, cases: set[int]) -> Any:
        conditions = [self.evidence.case(i).condition for i in sorted(cases)]
        return dict.fromkeys(conditions).keys()

    def _is_wrong(self, wrong: Mistake, i: int) -> bool:
        outcome = self.evidence.oracle.wrong(wrong, i)
        if outcome.error is not None or outcome.side_effect:
            return True
        right = self.evidence.expected(i)
        if not alike(outcome.output, right.output):
            return True
        grads = outcome.grads
        return not all(alike(grads[n], x) for n, x in right.grads.items())

    def merged(self, end: float) -> tuple[Mistake, Mistake] | None:
        """Return two mistakes that explain every case when made at once."""
        evidence = self.evidence
        cases = [*evidence.failing, *evidence.passing]
        for one, two in combinations(self.mistakes, 2):
            if time.process_time() > end:
                return None
            if not all(
                self._is_wrong(one, i) == self._is_wrong(two, i)
                for i in evidence.passing[:4]
            ):
                continue
            both = one.merged(two)
            if both is None:
                continue
            if all(
                agree(
                    evidence.outcomes[i],
                    evidence.oracle.run(both, i),
                    evidence.case(i),
                    evidence.oracle.part(i),
                )
                for i in cases
            ):
                return one, two
        return None

    def _count(self, wrong: Mistake) -> int:
        """Return how many wrong cases a mistake explains."""
        return sum(self.agrees(wrong, i) for i in self.evidence.failing)

    def here(self) -> list[Mistake]:
        """Return the mistake that explains the first wrong condition.

        The one that explains most wrong cases; or several that explain as
        many.
        """
        evidence = self.evidence
        first = evidence.failures[0].case.condition
        condition = [
            i
            for i in range(len(evidence.outcomes))
            if evidence.case(i).condition == first
        ]
        outputs = [evidence.outcomes[i].output for i in condition]
        telling = sum(x.numel() for _, x in named_tensors(outputs))
        if evidence.case(condition[0]).max_live is not None:
            condition = self._cheap_first(evidence.passing, condition)
        found = [
            x
            for x in self.mistakes
            if all(self.agrees(x, i) for i in condition)
            and any(self._is_wrong(x, i) for i in condition)
        ]
        if len(found) > 1:
            count = {x: self._count(x) for x in found}
            found = [x for x in found if count[x] == max(count.values())]
        return found if telling >= 4 and len(found) <= _MOST else []


def _is_filled(got: Tensor, other: Tensor, number: float) -> bool:
    """Return whether the number, no other, is where the other has NaN."""
    nan = other.isnan()
    filled = torch.where(nan, number, other)
    return bool((got[nan] == number).all()) and alike(got, filled)
