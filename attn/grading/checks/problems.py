"""Find the cases in which an answer is wrong, and what is wrong in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from attn.exercises.out_of_bounds import OutOfBounds
from attn.exercises.outcome import Forbidden, Outcome, SideEffect
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.compare import Part, Problem, differences, max_abs
from attn.grading.checks.evidence import Failure
from attn.grading.checks.inputs import input_name, named_tensors
from attn.grading.checks.objects import WrongParameters
from attn.grading.checks.result import NoGradient

if TYPE_CHECKING:
    from attn.grading.checks.oracle import Oracle


def failures(oracle: Oracle, outcomes: list[Outcome]) -> list[Failure]:
    """Return the cases in which outcomes are wrong, and what is wrong."""
    every = (failure(oracle, i, x) for i, x in enumerate(outcomes))
    return [x for x in every if x]


def failure(oracle: Oracle, i: int, outcome: Outcome) -> Failure | None:
    """Return what is wrong in the outcome of a case; None if it is right."""
    problems = _problems(oracle, i, outcome)
    if problems and all(x.kind == "value" for x in problems):
        problems = _problems(oracle, i, outcome, oracle.perturbed_fp64(i))
    case = oracle.cases[i]
    return Failure(case, outcome, problems, i) if problems else None


def _problems(
    oracle: Oracle, i: int, outcome: Outcome, perturbed: Outcome | None = None
) -> list[Problem]:
    if outcome.error is not None:
        counts = not oracle.cases[i].may_raise
        return [Problem("error", error_text(outcome))] * counts
    # Nearest to float32's result is no farther than may be from float64's.
    problems = _wrong_numbers(oracle, i, outcome) and _wrong_numbers(
        oracle, i, outcome, oracle.expected_fp64(i), perturbed
    )
    effect = _effect_across_calls(oracle, i, outcome, problems)
    if effect := effect or (None if problems else outcome.side_effect):
        kind = "random" if problems else "side effect"
        return [Problem(kind, effect.text, effect=effect)]
    return problems


def _wrong_numbers(
    oracle: Oracle,
    i: int,
    outcome: Outcome,
    exact: Outcome | None = None,
    perturbed: Outcome | None = None,
) -> list[Problem]:
    """Return what is wrong in the result; if nothing, in the gradients.

    Exact is by default the reference's own result.
    """
    expected = oracle.expected(i)
    exact = exact or expected
    if problems := differences(
        outcome.output,
        expected.output,
        exact.output,
        rtol=oracle.cases[i].rtol,
        perturbed=perturbed and perturbed.output,
    ):
        return problems
    names = oracle.exercise.input_names(oracle.cases[i])
    largest = max(map(max_abs, exact.grads.values()), default=0.0)
    for path, right in expected.grads.items():
        # One that is 0, of terms that cancel, is rounded as they are.
        cancels = max_abs(exact.grads[path]) < 1e-9 * largest
        problems += differences(
            outcome.grads.get(path),
            right,
            exact.grads[path],
            Part(input_name(path, names)),
            noise=1e-5 * largest if cancels else 0.0,
            perturbed=perturbed and perturbed.grads[path],
        )
    return problems


def _effect_across_calls(
    oracle: Oracle, i: int, outcome: Outcome, problems: list[Problem]
) -> SideEffect | None:
    """Find what differs by chance, or is the same where it should differ."""
    case, expected = oracle.cases[i], oracle.expected(i)
    tensors = [x for _, x in named_tensors(outcome.output)]
    used = tuple(sorted(outcome.random_used - expected.random_used))
    if used and expected.random_used:
        return SideEffect("unseeded generator", used)
    if used:
        # A dropout of 1 leaves nothing of the coins; and they make no NaN. A
        # generator that is an input is the one to draw from.
        inputs = (*case.args, *case.kwargs.values())
        given = any(isinstance(x, torch.Generator) for x in inputs)
        may_draw = case.train or (oracle.tosses_coins and not given)
        has_nan = any(x.isnan().any() for x in tensors)
        if not may_draw or (problems and not has_nan):
            return SideEffect("random numbers", used)
    if not outcome.repeats or expected.repeats:
        return None
    if expected.random_used:
        return SideEffect("same coins")
    # NaN is equal to NaN, and infinity to infinity, whatever the inputs were.
    is_kept = problems and any(x.isfinite().any() for x in tensors)
    return SideEffect("repeated result") if is_kept else None


def error_text(outcome: Outcome) -> str:
    """Return what an error in the learner's code means."""
    error = outcome.error
    if isinstance(error, OutOfTime | WrongParameters | NoGradient):
        return str(error)
    place = f"\n  in the line  {outcome.where}" if outcome.where else ""
    if isinstance(error, OutOfBounds | Forbidden):
        return f"{error}{place}"
    text = " ".join(str(error).split())
    text = text if len(text) <= 200 else text[:200] + " …"
    notes = "".join(f"\n  {x}" for x in getattr(error, "__notes__", ()))
    text = f": {text}" if text else ""
    return f"it raised {type(error).__name__}{text}{place}{notes}"
