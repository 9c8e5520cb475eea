"""Run the reference and the known mistakes on the cases of a seed."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

from attn.exercises.case import Case
from attn.exercises.changed_inputs import in_float64
from attn.exercises.mistakes import Mistake
from attn.exercises.outcome import Outcome
from attn.exercises.spec import Exercise
from attn.grading.checks.clock import TIME_LIMIT, Clock
from attn.grading.checks.compare import max_abs
from attn.grading.checks.inputs import named_tensors
from attn.grading.checks.more_cases import MoreCases
from attn.grading.checks.run import run


class Oracle:
    """The cases of one seed, and the outcomes of known answers on them.

    An answer runs on a case when its outcome is first needed, and once:
    mutation testing judges hundreds of answers on the same cases.

    Args:
        exercise: the exercise.
        seed: draws the cases.
    """

    def __init__(self, exercise: Exercise, seed: int) -> None:
        self.exercise = exercise
        self.cases = exercise.generate(seed)
        if not self.cases:
            raise RuntimeError(
                f"{exercise.id} has no cases: nothing was checked"
            )
        # One that draws with a rate of 0 as well is right, too.
        self.tosses_coins = any(x.train and not x.init for x in self.cases)
        self.clock = Clock(limit=60)
        if not exercise.launch:  # a kernel keeps nothing
            own, reference = [*self.cases], self._reference
            self.cases += MoreCases(exercise, own, seed + 1, reference)
        self.expected = cache(self._expected)
        self.expected_fp64 = cache(
            lambda i: self._reference(in_float64(self.cases[i]))
        )
        self.perturbed_fp64 = cache(self._perturbed_fp64)
        self.rtol = cache(self._rtol)
        self.mistaken = cache(self._mistaken)
        #: Outcomes of mistakes that have run the first cases.
        self.kept: dict[Mistake, list[Outcome]] = {}
        self._seconds: dict[int, float] = {}

    def time_limit(self, i: int) -> float:
        """Return the seconds that an answer may take for a case.

        A slow machine is slow for the reference too.
        """
        self.expected(i)
        calls = len(self.cases[i].before) + 1
        return max(TIME_LIMIT * calls, 50 * self._seconds[i])

    def _expected(self, i: int) -> Outcome:
        """Run the reference on a case, in its dtype."""
        outcome = self._reference(self.cases[i])
        self._seconds[i] = self.clock.spent
        return outcome

    def _perturbed_fp64(self, i: int) -> Outcome | None:
        """Run the reference in float64 on inputs that rounding has moved.

        None where the result is drawn: other coins are no rounding.
        """
        case = self.cases[i]
        if case.rtol or case.shares or self.expected(i).random_used:
            return None
        try:
            return self._reference(in_float64(case, perturbed=True))
        except RuntimeError:  # of inputs that no rounding gives
            return None

    def _rtol(self, i: int) -> float:
        """Return the relative tolerance between two answers of one mistake.

        Where scores are large, the order of the operations shows in a
        result, as rounding does in the reference's own.
        """
        if self.cases[i].rtol:  # other coins, not rounding
            return 1e-5
        right = self.expected(i).output, self.expected_fp64(i).output
        tensors = map(dict, map(named_tensors, right))
        errors = [
            (x.double() - y)[y.isfinite()].abs().max() / max_abs(y)
            for x, y in zip(*(x.values() for x in tensors), strict=True)
            if y.is_floating_point() and max_abs(y)
        ]
        return min(max([1e-5, *(8 * x.item() for x in errors)]), 1e-3)

    def _mistaken(self, mistake: Mistake, i: int) -> Outcome:
        """Run a mistake on a case, if its outcome is not kept already."""
        kept = self.kept.get(mistake, [])
        return kept[i] if i < len(kept) else self.run(mistake, i)

    def without_mistakes(self) -> Oracle:
        """Return one with the same references, and no mistake's outcomes."""
        other = copy(self)
        other.kept, other.mistaken = {}, cache(other._mistaken)
        return other

    def run(self, mistake: Any, i: int) -> Outcome:
        """Run a mistake, or a mutant, on a case."""
        case, launch = self.cases[i], self.exercise.caller
        names = self.exercise.input_names(case)
        return run(mistake.answer, case, launch=launch, names=names)

    def _reference(self, case: Case) -> Outcome:
        case = replace(case, max_live=None)  # measuring takes time
        reference, launch = self.exercise.reference, self.exercise.caller
        outcome = run(reference, case, clock=self.clock, launch=launch)
        if outcome.error is not None:
            raise RuntimeError(
                f"the reference of {self.exercise.id} fails when "
                f"{case.condition}"
            ) from outcome.error
        return outcome
