"""Judge an answer: run every case, compare, and name the mistake.

The mistake is named only when exactly one known misconception gives what
the learner's code gave; otherwise the smallest failing input is shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from attn.exercises.spec import Case, Exercise, Misconception
from attn.grading import explain
from attn.grading.compare import Problem, alike, compare
from attn.grading.known import Known
from attn.grading.run import (
    TIME_LIMIT,
    Forbidden,
    Outcome,
    OutOfTime,
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


def judge(
    exercise: Exercise,
    answer: Any,
    *,
    seed: int = 0,
    known: Known | None = None,
) -> Verdict:
    """Judge one answer.

    Args:
        exercise: what was asked.
        answer: the learner's function, class or kernel.
        seed: draws the inputs.
        known: of this exercise and seed, when many answers are judged.

    Returns:
        The verdict, with the diagnosis when it is wrong.
    """
    borrowed = explain.use_of_the_package(exercise, answer)
    if borrowed:
        return Verdict(False, borrowed)
    known = known or Known(exercise, seed)
    cases = known.cases
    with _one_thread():
        token = checking.set(exercise.id)
        try:
            outcomes = _run_all(answer, cases, exercise)
        finally:
            checking.reset(token)
        failures = _failures(known, outcomes)
        if not failures:
            return Verdict(True)
        mistake = _known_mistake(known, outcomes, failures)
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
        outcome = run(
            answer,
            case,
            forbids=exercise.forbids,
            seconds=left,
            launch=exercise.launch,
        )
        outcomes.append(outcome)
        if isinstance(
            outcome.error, OutOfTime | NotImplementedError | Forbidden
        ):
            break
    return outcomes


def _failures(known: Known, outcomes: list[Outcome]) -> list[Failure]:
    failures = []
    for i, outcome in enumerate(outcomes):
        case, honest = known.cases[i], known.reference(i)
        truth = partial(known.truth, i)
        problem = _problem(outcome, honest, truth, case.about)
        if problem:
            failures.append(Failure(case, outcome, problem, honest.output))
    return failures


def _problem(
    outcome: Outcome,
    honest: Outcome,
    truth: Callable[[], Outcome],
    about: float = 0.0,
) -> Problem | None:
    if outcome.error is not None:
        return Problem("error", explain.error_text(outcome))
    exact = truth()
    found = compare(outcome.output, honest.output, exact.output, about=about)
    for name, grad in honest.grads.items():
        if found:
            return found
        what = f"the gradient of {explain.gradient_name(name)}"
        got = outcome.grads.get(name)
        found = compare(got, grad, exact.grads[name], what)
    if not found and outcome.fault:
        return Problem("fault", outcome.fault)
    return found


def _known_mistake(
    known: Known, outcomes: list[Outcome], failures: list[Failure]
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
    ran = range(len(outcomes))
    stage = [i for i in ran if known.cases[i].stage == first.case.stage]
    rest = [i for i in ran if i not in stage]
    everywhere, here = [], []
    for wrong in known.exercise.misconceptions:

        def same(i: int, wrong: Misconception = wrong) -> bool:
            return _agree(outcomes[i], known.mistaken(wrong, i))

        if all(map(same, stage)):
            here.append(wrong)
            if all(map(same, rest)):
                everywhere.append(wrong)
    if len(everywhere) == 1:
        return everywhere[0]
    telling = sum(
        x.numel() for i in stage for _, x in named_tensors(outcomes[i].output)
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
