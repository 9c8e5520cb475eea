"""Run the right and the known wrong answers on the cases of a seed.

Everything is run when it is first asked for, and once: the proof that the
checks bite judges hundreds of answers on the same cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from attn.exercises.mistakes import Mistake
from attn.exercises.spec import Case, Exercise
from attn.grading.run import Outcome, map_tensors, run


class Oracle:
    """The cases of one seed, and what known answers give on them.

    Args:
        exercise: what is asked.
        seed: draws the cases.
    """

    def __init__(self, exercise: Exercise, seed: int) -> None:
        self.exercise = exercise
        self.cases = exercise.generate(seed)
        if not self.cases:
            raise RuntimeError(
                f"{exercise.id} has no cases: nothing was checked"
            )
        self._outcomes: dict[tuple[str, int], Outcome] = {}

    def reference(self, i: int) -> Outcome:
        """Run the reference on a case, in its dtype."""
        return self._once("", i, lambda: self._honest(self.cases[i]))

    def truth(self, i: int) -> Outcome:
        """Run the reference in float64."""
        return self._once("in float64", i, lambda: self._honest(self._wide(i)))

    def mistaken(self, wrong: Mistake, i: int) -> Outcome:
        """Run a mistake on a case."""

        def tried() -> Outcome:
            launch = self.exercise.launch
            return run(wrong.answer, self.cases[i], launch=launch)

        return self._once(f"wrong: {wrong.name}", i, tried)

    def _once(self, who: str, i: int, tried: Callable[[], Outcome]) -> Outcome:
        if (who, i) not in self._outcomes:
            self._outcomes[who, i] = tried()
        return self._outcomes[who, i]

    def _honest(self, case: Case) -> Outcome:
        reference, launch = self.exercise.reference, self.exercise.launch
        outcome = run(reference, case, seconds=60, launch=launch)
        if outcome.error is not None:
            raise RuntimeError(
                f"the reference of {self.exercise.id} fails on {case}"
            ) from outcome.error
        return outcome

    def _wide(self, i: int) -> Case:
        def double(x: Tensor) -> Tensor:
            return x.double() if x.is_floating_point() else x

        case = self.cases[i]
        state: Any = case.state
        return replace(
            case,
            args=map_tensors(double, case.args),
            kwargs=map_tensors(double, dict(case.kwargs)),
            state=None if state is None else map_tensors(double, state),
        )
