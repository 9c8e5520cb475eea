"""Judge an answer: run every case, compare, and name the mistake.

A mistake is named only when exactly one of the exercise's mistakes gives
what the learner's code gives; otherwise the smallest failing input is shown.
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

from attn.exercises.mistakes import Mistake
from attn.exercises.spec import Case, Exercise
from attn.grading import explain
from attn.grading.compare import Problem, alike, compare
from attn.grading.interpreter import language_kept_patched
from attn.grading.oracle import Oracle
from attn.grading.run import (
    TIME_LIMIT,
    Failure,
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
    """The result of judging an answer.

    ``mistake`` is the name of the matching mistake, ``stage`` the first stage
    that failed.
    """

    passed: bool
    message: str = ""
    mistake: str | None = None
    stage: str = ""


def judge(
    exercise: Exercise,
    answer: Any,
    *,
    seed: int = 0,
    oracle: Oracle | None = None,
) -> Verdict:
    """Judge one answer.

    Args:
        exercise: what was asked.
        answer: the learner's function, class or kernel.
        seed: draws the inputs.
        oracle: of this exercise and seed, when many answers are judged.

    Returns:
        The verdict, with the diagnosis when it is wrong.
    """
    borrowed = explain.use_of_the_package(exercise, answer)
    if borrowed:
        return Verdict(False, borrowed)
    oracle = oracle or Oracle(exercise, seed)
    cases = oracle.cases
    with _one_thread(), language_kept_patched():
        token = checking.set(exercise.id)
        try:
            outcomes = _run_all(answer, cases, exercise)
        finally:
            checking.reset(token)
        failures = _failures(oracle, outcomes)
        if not failures:
            return Verdict(True)
        mistake = _matching_mistake(oracle, outcomes, failures)
    message = explain.explain(exercise, cases, failures, mistake)
    name = mistake.name if mistake else None
    return Verdict(False, message, name, failures[0].case.stage)


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


def _failures(oracle: Oracle, outcomes: list[Outcome]) -> list[Failure]:
    failures = []
    for i, outcome in enumerate(outcomes):
        case, honest = oracle.cases[i], oracle.reference(i)
        truth = partial(oracle.truth, i)
        problem = _problem(outcome, honest, truth, case.rtol)
        if problem:
            failures.append(Failure(case, outcome, problem, honest.output))
    return failures


def _problem(
    outcome: Outcome,
    honest: Outcome,
    truth: Callable[[], Outcome],
    rtol: float = 0.0,
) -> Problem | None:
    if outcome.error is not None:
        return Problem("error", explain.error_text(outcome))
    exact = truth()
    found = compare(outcome.output, honest.output, exact.output, rtol=rtol)
    for name, grad in honest.grads.items():
        if found:
            return found
        what = f"the gradient of {explain.gradient_name(name)}"
        got = outcome.grads.get(name)
        found = compare(got, grad, exact.grads[name], what)
    if not found and outcome.fault:
        return Problem("fault", outcome.fault)
    return found


def _matching_mistake(
    oracle: Oracle, outcomes: list[Outcome], failures: list[Failure]
) -> Mistake | None:
    """The one mistake that explains the answer, if there is one.

    First over all cases; then, for an answer with a second fault, over the
    first stage that failed.
    """
    first = failures[0]
    if first.problem.kind in ("fault",) or isinstance(
        first.outcome.error, NotImplementedError | OutOfTime | Forbidden
    ):
        return None
    ran = range(len(outcomes))
    stage = [i for i in ran if oracle.cases[i].stage == first.case.stage]
    rest = [i for i in ran if i not in stage]
    everywhere, here = [], []
    for wrong in oracle.exercise.mistakes:

        def same(i: int, wrong: Mistake = wrong) -> bool:
            return _agree(outcomes[i], oracle.mistaken(wrong, i))

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
