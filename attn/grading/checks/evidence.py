"""Everything that was observed of a wrong answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attn.exercises.case import Case
from attn.exercises.outcome import Outcome
from attn.grading.checks.compare import Problem, alike, max_abs
from attn.grading.checks.inputs import input_size
from attn.grading.checks.objects import WrongParameters

if TYPE_CHECKING:
    from attn.exercises.spec import Exercise
    from attn.grading.checks.oracle import Oracle

ENOUGH = 4  # elements: as much as that is no chance
_TRIALS = 400  # of a search: 0.2 s


@dataclass(frozen=True)
class Failure:
    """One case with a wrong outcome.

    Args:
        case, outcome: the case, and what the answer made of it.
        problems: what is wrong, one for each wrong entry of a tuple.
        index: of the case.
    """

    case: Case
    outcome: Outcome
    problems: list[Problem]
    index: int = 0

    @property
    def problem(self) -> Problem:
        """The first problem."""
        return self.problems[0]

    @property
    def effect(self) -> str | None:
        """The kind of side effect that is the first problem, if one is."""
        return self.problem.effect.kind if self.problem.effect else None

    @property
    def values(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Got, expected and wrong of all problems.

        Empty when the answer is wrong in more than its numbers.
        """
        values = [
            (p.got, p.expected, p.wrong)
            for p in self.problems
            if p.wrong is not None
        ]
        return values if len(values) == len(self.problems) else []


def _run(answer: Any, case: Case, **options: Any) -> Outcome:
    """Run as ``run`` does, which a page does without."""
    from attn.grading.checks.run import run

    return run(answer, case, **options)


@dataclass
class Evidence:
    """The cases that ran, the right outcomes, and the answer's.

    Args:
        oracle: gives the cases and the right outcomes.
        outcomes: the answer's, of the cases that ran.
        failures: those that are wrong, in order.
        answer: the learner's function, class or kernel.
        runner: runs the answer on a case, as ``run`` does.
    """

    oracle: Oracle
    outcomes: list[Outcome]
    failures: list[Failure]
    answer: Any = None
    runner: Callable[..., Outcome] = _run

    @property
    def exercise(self) -> Exercise:
        """The exercise that is answered."""
        return self.oracle.exercise

    @cached_property
    def failing(self) -> dict[int, Failure]:
        """The failures by the index of their case, small inputs first.

        Those of a second call, or dtype, count when all first ones are right.
        """
        first = [f for f in self.failures if not f.case.is_repeated]
        counted = first or self.failures
        ordered = sorted(counted, key=lambda f: input_size(f.case))
        return {f.index: f for f in ordered}

    @cached_property
    def passing(self) -> list[int]:
        """The indices of the cases that are right, small inputs first.

        An error that is forgiven is neither right nor a failure.
        """
        wrong = {f.index for f in self.failures}
        ran = {i for i, x in enumerate(self.outcomes) if not x.error}
        right = ran - wrong
        return sorted(right, key=lambda i: (input_size(self.case(i)), i))

    @cached_property
    def within_rounding(self) -> bool:
        """Tell wrong outcomes that are nearly right from others.

        None of the changes that are tried can be told from the right answer
        where this is true.
        """
        return all(
            agree(f.outcome, self.expected(i), f.case)
            for i, f in self.failing.items()
        )

    @cached_property
    def telling(self) -> int:
        """Count the wrong elements that are finite: NaN is like any other NaN.

        A wrong number, or shape, counts as two.
        """
        problems = [p for f in self.failing.values() for p in f.problems]
        return sum(map(_count_finite, problems))

    @property
    def trials(self) -> int:
        """Count the changes that a search may try: a case is run for each.

        It measures no time, so that the same answer gets the same name. Of
        large inputs, which take longer, it allows fewer.
        """
        smallest = input_size(self.case(next(iter(self.failing), 0)))
        return max(_TRIALS * 1000 // (1000 + smallest), 20)

    def case(self, i: int) -> Case:
        """Return a case."""
        return self.oracle.cases[i]

    def expected(self, i: int) -> Outcome:
        """Return the right outcome of a case."""
        return self.oracle.expected(i)

    def inputs(self, i: int) -> dict[str, Any]:
        """Return the inputs of a case by the names that the task gives."""
        return self.exercise.inputs(self.case(i))

    def with_defaults(self, i: int) -> dict[str, Any]:
        """Return the inputs of a case, and the defaults of the others."""
        defaults = self.exercise.defaults.items()
        given = {n: x for n, x in defaults if x is not None}
        return {**given, **self.inputs(i)}

    def reference(self, i: int, **fields: Any) -> Outcome:
        """Run the reference on a case with some of its fields replaced."""
        fields |= {"max_live": None, "grad": False, "once": (), "before": ()}
        case, launch = replace(self.case(i), **fields), self.exercise.caller
        return _run(self.exercise.reference, case, launch=launch)


def _count_finite(problem: Problem) -> int:
    if problem.wrong is None:
        return 2
    got, expected = problem.got, problem.expected
    if problem.kind != "nan":
        return int((problem.wrong & got.isfinite()).sum())
    right = torch.isclose(got, expected, 1e-3, 1e-6)
    return int((got.isfinite() & ~right).sum())


def agree(
    a: Outcome,
    b: Outcome,
    case: Case,
    rtol: float = 1e-5,
    coins: float | None = None,
) -> bool:
    """Return whether two outcomes of a case look like the same mistake.

    Their numbers do when they are equal up to ``rtol`` of the largest element.

    Two errors do when they have the same type and the same text but for
    digits; and, where the text is one that any shapes can give, when the
    shapes that met are the same. Two answers that toss coins toss others:
    what the case forgives them, or ``coins``, is no difference, nor is, in
    training, a coin of which nothing is left.
    """
    if a is b:
        return True
    if (a.error or b.error) and not _same_error(a, b):
        return False
    if not case.train and a.random_used != b.random_used:
        return False
    if case.shares or (a.random_used and b.random_used):
        rtol = max(rtol, case.rtol if coins is None else coins)
    one, two = (x.side_effect and x.side_effect.likeness for x in (a, b))
    if one != two or not alike(a.output, b.output, rtol):
        return False
    # A gradient that is 0 but for rounding is measured by the others.
    floor = 0.1 * max(map(max_abs, b.grads.values()), default=0.0)
    both = [n for n in a.grads if n in b.grads]
    return all(alike(a.grads[n], b.grads[n], rtol, floor) for n in both)


def _same_error(a: Outcome, b: Outcome) -> bool:
    # Digits may be chance; those of a parameter's shape are not.
    chance = "(?!)" if isinstance(a.error, WrongParameters) else r"\d"
    texts = {re.sub(chance, "", str(x.error)) for x in (a, b)}
    if type(a.error) is not type(b.error) or len(texts) > 1:
        return False
    shapes, others = {*a.shapes_seen.values()}, {*b.shapes_seen.values()}
    general = any(word in str(a.error) for word in _OF_ANY_SHAPES)
    return not general or shapes <= others or others <= shapes


#: Words of Python's and PyTorch's errors that any shapes can give.
_OF_ANY_SHAPES = ("size", "shape", "dimension", "must match")
