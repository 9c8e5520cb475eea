"""Run an exercise's cases on its solution and on all that is known of wrong.

The real engine runs the reference, and the page's own runner, on real PyTorch,
the solution and each mistake. Of the cases those are chosen that catch every
mistake and tell any two of them apart, small ones first, and at least one of
each condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from attn.exercises import sources
from attn.exercises.case import Case
from attn.exercises.draw import Draw
from attn.exercises.mistakes import Mistake
from attn.exercises.outcome import Outcome
from attn.exercises.spec import Exercise
from attn.grading.checks.compare import Problem, alike
from attn.grading.checks.evidence import Evidence, Failure, agree
from attn.grading.checks.inputs import input_size, leaves
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.problems import failure
from attn.grading.diagnosis.input_changes import input_changes
from attn.grading.diagnosis.kinds import Claim, Kind, Prediction
from attn.page.encode import SAMPLE, CannotStore, Encoder
from attn.page.offered import given
from attn.page.running import Program, run

FEW = 4  # elements of each result of a prediction
_LARGEST, _MANY = 50_000, 5_000  # elements of a case's inputs
_ENOUGH = 9000  # elements in all: what a file has room for
Outcomes = dict[int, Outcome]
"""By the index of a case."""


class _Coarse(Draw):
    """Draw elements of three decimals, which are the same on every CPU.

    Where there are thousands, of none: they take room.
    """

    def randn(self, *shape: int) -> Tensor:
        """Draw elements of mean 0 and variance 1."""
        x = torch.randn(shape, generator=self, dtype=torch.float64)
        return x.round(decimals=3 if x.numel() < _MANY else 0).float()


class Tried:
    """The cases of an exercise that a page can have, and all outcomes."""

    def __init__(self, exercise: Exercise) -> None:
        def coarse(g: Draw) -> Iterator[Case]:
            own = _Coarse()
            own.set_state(g.get_state())
            return exercise.cases(own)

        self.exercise = replace(exercise, cases=coarse)
        self.oracle = Oracle(self.exercise, seed=0)
        self.oracle.cases = [_unmeasured(x) for x in self.oracle.cases]
        every = range(len(self.oracle.cases))
        self.cases = [i for i in every if self._fits(i)]
        self.given = given(exercise)
        solution = self._outcomes(sources.solution(exercise.id))
        if wrong := self._wrong(solution):
            when = self.oracle.cases[min(wrong)].condition
            raise CannotStore(f"the solution is wrong on a page when {when}")
        self.mistakes = {
            x: self._told(self._outcomes(x.source)) for x in exercise.mistakes
        }

    def _fits(self, i: int) -> bool:
        """Return whether a page can have a case, and compare its result."""
        case = self.oracle.cases[i]
        try:
            Encoder().case(case)
            Encoder().outcome(right := self.oracle.expected(i), None)
        except CannotStore:
            return False
        drawn = right.random_used or case.shares or case.once
        is_large = _inputs_of(case) > _LARGEST
        return not (drawn or is_large or case.largest_over is not None)

    def _outcomes(self, source: str) -> Outcomes:
        """Run an answer on the cases, up to one that ends the check."""
        names: dict[str, Any] = {}
        exec(self.given, names)
        program = Program(source, names)
        program.run()
        exercise, outcomes = self.exercise, {}
        for i in self.cases:
            case = self.oracle.cases[i]
            outcomes[i] = run(
                program,
                program.names[exercise.name],
                case,
                forbids=exercise.forbids,
                names=exercise.input_names(case),
                use=exercise.use,
            )
        return outcomes

    def _told(self, outcomes: Outcomes) -> Outcomes:
        """Return outcomes without the gradients of results that are wrong."""
        right = {i: self.oracle.expected(i).output for i in outcomes}
        return {
            i: x if alike(x.output, right[i]) else replace(x, grads={})
            for i, x in outcomes.items()
        }

    def _wrong(self, own: Outcomes) -> set[int]:
        return {i for i in own if failure(self.oracle, i, own[i]) is not None}

    def chosen(self) -> list[int]:
        """Return the cases to store.

        Raises:
            CannotStore: a mistake is right in all cases of a page.
        """
        oracle, every = self.oracle, self.cases
        wrong = {x: self._wrong(own) for x, own in self.mistakes.items()}
        if unseen := [x.label for x, cases in wrong.items() if not cases]:
            raise CannotStore(f"no case of a page catches {'; '.join(unseen)}")
        costs = {}
        for i in every:
            kinds = sum(i in cases for cases in wrong.values())
            results = [x.numel() for x in tensors(oracle.expected(i))]
            each = sum(min(n, SAMPLE) for n in results)
            costs[i] = _inputs_of(oracle.cases[i]) + sum(results)
            costs[i] += kinds * each
        cheap = sorted(every, key=lambda i: (costs[i], i))
        chosen: list[int] = []

        def take(fitting: Callable[[int], bool]) -> None:
            if not any(map(fitting, chosen)):
                chosen.extend([i for i in cheap if fitting(i)][:1])

        usual = [i for i in every if costs[i] < _MANY]
        for when in dict.fromkeys(oracle.cases[i].condition for i in usual):
            same = {i for i in every if oracle.cases[i].condition == when}
            take(same.__contains__)
        for cases in wrong.values():
            take(cases.__contains__)
        for x, y in combinations(self.mistakes, 2):
            if x.name != y.name:
                take(partial(self._differ, x, y))
        room = _ENOUGH - sum(costs[i] for i in chosen)
        for i in cheap:
            if i not in chosen and costs[i] <= room:
                chosen.append(i)
                room -= costs[i]
        return sorted(chosen)

    def _differ(self, x: Mistake, y: Mistake, i: int) -> bool:
        """Return whether a case tells two mistakes apart."""
        return not self._agree(i, self.mistakes[x][i], self.mistakes[y][i])

    def _agree(self, i: int, one: Outcome, two: Outcome) -> bool:
        return agree(one, two, self.oracle.cases[i], self.oracle.rtol(i))

    def is_right(self, i: int, outcome: Outcome) -> bool:
        """Return whether an outcome is the right one."""
        return self._agree(i, outcome, self.oracle.expected(i))

    def predicted(self, chosen: list[int]) -> Iterator[tuple[Kind, Outcomes]]:
        """Yield what is right for other inputs, as the engine tries them.

        Some of it, where there is much; and nothing that another cause would
        give as well, where it is wrong.
        """
        oracle, room, names = self.oracle, _ENOUGH, set[str]()
        by_inputs = sorted(
            chosen, key=lambda i: len(self.exercise.inputs(oracle.cases[i]))
        )
        for first in (by_inputs[-1], by_inputs[0]):
            case, right = oracle.cases[first], oracle.expected(first)
            wrong = [Failure(case, right, [Problem("value", "")], first)]
            for claim in input_changes(Evidence(oracle, [], wrong)):
                kind = claim.name
                if not isinstance(kind, Kind) or kind.name in names:
                    continue
                made = self._made(claim.predict, chosen)
                if self._proves_nothing(claim, made):
                    continue
                room -= FEW * len(chosen)
                if room >= 0:
                    names.add(kind.name)
                    yield kind, made

    def _made(self, predict: Prediction, cases: list[int]) -> Outcomes:
        """Return what is predicted: what is right, where nothing is said."""
        made = {i: self.oracle.expected(i) for i in cases}
        for i in cases:
            with suppress(Exception):  # an input is lacking
                made[i] = predict(i) or made[i]
        return made

    def _proves_nothing(self, claim: Claim, made: Outcomes) -> bool:
        """Return whether it is right, an error, or its rival as true.

        As in evidence, of the wrong cases first calls count.
        """
        wrong = [i for i in made if not self.is_right(i, made[i])]
        first = [i for i in wrong if not self.oracle.cases[i].is_repeated]
        failed = any(x.error for x in made.values())
        if failed or not wrong or not claim.rival:
            return failed or not wrong
        other = self._made(claim.rival, first or wrong)
        return all(self._agree(i, other[i], made[i]) for i in other)


def _inputs_of(case: Case) -> int:
    return sum(map(input_size, (*case.before, case)))


def _unmeasured(case: Case) -> Case:
    before = tuple(map(_unmeasured, case.before))
    return replace(case, max_live=None, max_kept=None, before=before)


def tensors(outcome: Outcome, floats: bool = False) -> list[Tensor]:
    """Return a result's tensors, or its floats as well, and its gradients."""
    named = *leaves(outcome.output), *sorted(outcome.grads.items())
    return [
        x if isinstance(x, Tensor) else torch.tensor(x, dtype=torch.float64)
        for _, x in named
        if isinstance(x, Tensor) or floats and isinstance(x, float)
    ]
