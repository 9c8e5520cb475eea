"""Run the cases, and find those in which an answer is wrong."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch

from attn.compat import language_kept_patched
from attn.exercises.case import Case
from attn.exercises.guard import OutOfBounds
from attn.grading.checks.clock import Clock, OutOfTime
from attn.grading.checks.compare import Problem, differences, size
from attn.grading.checks.evidence import Failure
from attn.grading.checks.forbidden import Forbidden
from attn.grading.checks.inputs import input_name, named_tensors
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.parameters import WrongParameters
from attn.grading.checks.run import Outcome, run

checking: ContextVar[str | None] = ContextVar("checking", default=None)
"""The id of the exercise whose answer is running."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Run on one thread: more cost more than they give on small tensors.

    On a busy machine a softmax of ten elements takes 8 ms with two threads,
    1 µs with one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run_all(
    answer: Any,
    oracle: Oracle,
    *,
    quick: bool = False,
    runner: Callable[..., Outcome] = run,
) -> list[Outcome]:
    """Run the cases in order; stop after a time-out or at a stub.

    Args:
        answer: the learner's function, class or kernel.
        oracle: gives the cases.
        quick: stop after the first case that is wrong, too; and watch what
            the answer calls, for what the task forbids, in the first only.
        runner: runs the answer on a case, as ``run`` does.
    """
    exercise, outcomes, clock = oracle.exercise, [], Clock()
    with one_thread(), language_kept_patched(), checked(exercise.id):
        for i, case in enumerate(oracle.cases):
            oracle.expected(i)
            clock.limit = oracle.time_limit
            outcome = runner(
                answer,
                case,
                forbids=() if quick and i else exercise.forbids,
                clock=clock,
                launch=exercise.caller,
                names=exercise.input_names(case),
            )
            outcomes.append(outcome)
            if stopped(outcomes) or (quick and _failure(oracle, i, outcome)):
                break
    return outcomes


def stopped(outcomes: list[Outcome]) -> bool:
    """Return whether the last outcome forbids to run any other case."""
    return isinstance(outcomes[-1].error, _STOPS)


@contextmanager
def checked(exercise_id: str) -> Iterator[None]:
    """Tell a check that an answer calls which exercise is being checked."""
    token = checking.set(exercise_id)
    try:
        yield
    finally:
        checking.reset(token)


_STOPS = OutOfTime | NotImplementedError | Forbidden


def failures(oracle: Oracle, outcomes: list[Outcome]) -> list[Failure]:
    """Return the cases in which outcomes are wrong, and what is wrong."""
    found = (_failure(oracle, i, x) for i, x in enumerate(outcomes))
    return [x for x in found if x]


def _failure(oracle: Oracle, i: int, outcome: Outcome) -> Failure | None:
    expected, fp64 = oracle.expected(i), partial(oracle.expected_fp64, i)
    case = oracle.cases[i]
    names = oracle.exercise.input_names(case)
    problems = _problems(outcome, case, expected, fp64, names)
    if problems and all(x.kind == "value" for x in problems):
        near = oracle.near_fp64(i)
        problems = _problems(outcome, case, expected, fp64, names, near)
    return Failure(case, outcome, problems, i) if problems else None


def _problems(
    outcome: Outcome,
    case: Case,
    expected: Outcome,
    expected_fp64: Callable[[], Outcome],
    names: list[str],
    near: Outcome | None = None,
) -> list[Problem]:
    if outcome.error is not None:
        return [Problem("error", error_text(outcome))]
    exact = expected_fp64()
    parts = outcome.output, expected.output, exact.output
    moved = near and near.output
    found = differences(*parts, rtol=case.rtol, near=moved)
    if not found:
        largest = max(map(size, exact.grads.values()), default=0.0)
        for name, grad in expected.grads.items():
            what = f"the gradient of {input_name(name, names)}"
            got, right = outcome.grads.get(name), exact.grads[name]
            # One that is 0, of terms that cancel, is rounded as they are.
            noise = 1e-5 * largest if size(right) < 1e-9 * largest else 0.0
            moved = near and near.grads[name]
            found += differences(
                got, grad, right, what, noise=noise, near=moved
            )
    if odd := _oddity(outcome, case, expected, is_right=not found):
        return [Problem("random" if found else "side effect", odd)]
    if not found and outcome.side_effect:
        return [Problem("side effect", outcome.side_effect)]
    return found


def _has_nan(outcome: Outcome) -> bool:
    tensors = [x for _, x in named_tensors(outcome.output)]
    return any(bool(x.isnan().any()) for x in tensors)


def _oddity(
    outcome: Outcome, case: Case, expected: Outcome, is_right: bool
) -> str:
    """Return what differs by chance, or from call to call, in words."""
    whose = " and ".join(sorted(outcome.random_used - expected.random_used))
    if whose and expected.random_used:
        return (
            f"it draws from {whose} generator, which torch.manual_seed does "
            "not seed"
        )
    # A dropout of 1 leaves nothing of the coins; and they make no NaN.
    if whose and not (case.train and (is_right or _has_nan(outcome))):
        return (
            f"it draws random numbers from {whose} global generator, or "
            "seeds it, and this task needs none"
        )
    if not outcome.repeats or expected.repeats:
        return ""
    if expected.random_used:
        return "it tosses the same coins at each call: is there a seed inside?"
    if is_right:
        return ""
    return "it returns an earlier call's result: what is kept between calls?"


def error_text(outcome: Outcome) -> str:
    """Return what an error in the learner's code means."""
    error = outcome.error
    if isinstance(error, OutOfTime | WrongParameters):
        return str(error)
    place = f"\n  in the line  {outcome.where}" if outcome.where else ""
    if isinstance(error, OutOfBounds | Forbidden):
        return f"{error}{place}"
    text = " ".join(str(error).split())
    text = text if len(text) <= 200 else text[:200] + " …"
    notes = "".join(f"\n  {x}" for x in getattr(error, "__notes__", ()))
    text = f": {text}" if text else ""
    return f"it raised {type(error).__name__}{text}{place}{notes}"
