"""Judge an answer: run every case, compare, and name the mistake.

The mistake is named only when exactly one known misconception gives what
the learner's code gave; otherwise the smallest failing input is shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attn.exercises.spec import Case, Exercise, Misconception
from attn.grading import explain
from attn.grading.compare import Problem, alike, compare
from attn.grading.run import (
    TIME_LIMIT,
    Forbidden,
    Outcome,
    OutOfTime,
    map_tensors,
    named_tensors,
    run,
)

checking: ContextVar[str | None] = ContextVar("checking", default=None)
"""The id of the exercise whose answer is running just now."""


@dataclass(frozen=True)
class Verdict:
    """What became of an answer. ``mistake`` is the misconception's name."""

    passed: bool
    message: str = ""
    mistake: str | None = None


@dataclass(frozen=True)
class Failure:
    """One case that went wrong."""

    case: Case
    outcome: Outcome
    problem: Problem
    expected: Any


def judge(exercise: Exercise, answer: Any, *, seed: int = 0) -> Verdict:
    """Judge one answer.

    Args:
        exercise: what was asked.
        answer: the learner's function or class.
        seed: draws the inputs.

    Returns:
        The verdict, with the diagnosis when it is wrong.
    """
    borrowed = explain.use_of_the_package(exercise, answer)
    if borrowed:
        return Verdict(False, borrowed)
    cases = exercise.generate(seed)
    if not cases:
        raise RuntimeError(f"{exercise.id} has no cases: nothing was checked")
    with _one_thread():
        token = checking.set(exercise.id)
        try:
            outcomes = _run_all(answer, cases, exercise)
        finally:
            checking.reset(token)
        failures = _failures(exercise, cases, outcomes)
        if not failures:
            return Verdict(True)
        mistake = _known_mistake(exercise, cases, outcomes, failures)
    message = explain.explain(exercise, cases, failures, mistake)
    return Verdict(False, message, mistake.name if mistake else None)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Threads cost more than they give on tensors this small: on a busy
    machine a softmax of ten numbers takes 8 ms with two, 1 µs with one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _run_all(
    answer: Any, cases: list[Case], exercise: Exercise
) -> list[Outcome]:
    """Outcomes in order; after a time-out or a stub the rest is not run."""
    outcomes: list[Outcome] = []
    deadline = time.monotonic() + TIME_LIMIT
    for case in cases:
        left = deadline - time.monotonic()
        outcome = run(answer, case, forbids=exercise.forbids, seconds=left)
        outcomes.append(outcome)
        if isinstance(
            outcome.error, OutOfTime | NotImplementedError | Forbidden
        ):
            break
    return outcomes


def _failures(
    exercise: Exercise, cases: list[Case], outcomes: list[Outcome]
) -> list[Failure]:
    failures = []
    for case, outcome in zip(cases, outcomes, strict=False):
        honest = _reference(exercise, case)
        problem = _problem(outcome, honest, partial(_truth, exercise, case))
        if problem:
            failures.append(Failure(case, outcome, problem, honest.output))
    return failures


def _problem(
    outcome: Outcome, honest: Outcome, truth: Callable[[], Outcome]
) -> Problem | None:
    if outcome.error is not None:
        return Problem("error", explain.error_text(outcome))
    exact = truth()
    found = compare(outcome.output, honest.output, exact.output)
    for name, grad in honest.grads.items():
        if found:
            return found
        what = f"the gradient of {explain.gradient_name(name)}"
        got = outcome.grads.get(name)
        found = compare(got, grad, exact.grads[name], what)
    if not found and outcome.fault:
        return Problem("fault", outcome.fault)
    return found


def _reference(exercise: Exercise, case: Case) -> Outcome:
    outcome = run(exercise.reference, case, seconds=60)
    if outcome.error is not None:
        raise RuntimeError(
            f"the reference of {exercise.id} fails on {case}"
        ) from outcome.error
    return outcome


def _truth(exercise: Exercise, case: Case) -> Outcome:
    """The reference in float64."""

    def double(x: Tensor) -> Tensor:
        return x.double() if x.is_floating_point() else x

    exact = replace(
        case,
        args=map_tensors(double, case.args),
        kwargs=map_tensors(double, dict(case.kwargs)),
        state=None if case.state is None else map_tensors(double, case.state),
    )
    return _reference(exercise, exact)


def _known_mistake(
    exercise: Exercise,
    cases: list[Case],
    outcomes: list[Outcome],
    failures: list[Failure],
) -> Misconception | None:
    """The one misconception that explains the answer, if there is one.

    First over all cases; then, for an answer with a second fault, over the
    first stage that failed.
    """
    first = failures[0]
    if first.problem.kind in ("fault",) or isinstance(
        first.outcome.error, NotImplementedError | OutOfTime | Forbidden
    ):
        return None
    stage = [i for i, c in enumerate(cases) if c.stage == first.case.stage]
    everywhere, here = [], []
    for wrong in exercise.misconceptions:
        theirs = {
            i: run(wrong.answer, cases[i]) for i in stage if i < len(outcomes)
        }
        if not all(_agree(outcomes[i], theirs[i]) for i in theirs):
            continue
        here.append(wrong)
        rest = [i for i in range(len(outcomes)) if i not in theirs]
        if all(_agree(outcomes[i], run(wrong.answer, cases[i])) for i in rest):
            everywhere.append(wrong)
    if len(everywhere) == 1:
        return everywhere[0]
    telling = sum(
        x.numel()
        for i in stage
        if i < len(outcomes)
        for _, x in named_tensors(outcomes[i].output)
    )
    if not everywhere and len(here) == 1 and telling >= 4:
        return here[0]
    return None


def _agree(a: Outcome, b: Outcome) -> bool:
    if a.error is not None or b.error is not None:
        return type(a.error) is type(b.error) and _gist(a) == _gist(b)
    if not alike(a.output, b.output):
        return False
    return all(alike(a.grads[n], b.grads[n]) for n in a.grads if n in b.grads)


def _gist(outcome: Outcome) -> str:
    """An error's message without its numbers."""
    return "".join(c for c in str(outcome.error) if not c.isdigit())
