"""Run the cases, and find those in which an answer is wrong."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from attn.exercises.guard import OutOfBounds
from attn.exercises.kernel import Emulated
from attn.exercises.spec import Exercise
from attn.grading.checks.clock import Clock, OutOfTime
from attn.grading.checks.compare import Part, Problem, differences, max_abs
from attn.grading.checks.effects import SideEffect
from attn.grading.checks.evidence import Failure
from attn.grading.checks.forbidden import Forbidden
from attn.grading.checks.inputs import input_name, named_tensors
from attn.grading.checks.objects import WrongParameters
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.result import NoGradient
from attn.grading.checks.run import Outcome, run
from attn.profiling.calls import one_thread as one_thread
from attn.profiling.compat import language_kept_patched


def run_all(
    answer: Any,
    oracle: Oracle,
    *,
    quick: bool = False,
    done: list[Outcome] | None = None,
    runner: Callable[..., Outcome] = run,
) -> list[Outcome]:
    """Run the cases in order; stop after a time-out or at a stub.

    Args:
        answer: the learner's function, class or kernel.
        oracle: gives the cases.
        quick: stop after the first case that is wrong, too; and watch what
            the answer calls, for what the task forbids, in the first only.
        done: outcomes of the first cases; the others follow.
        runner: runs the answer on a case, as ``run`` does.
    """
    exercise, clock = oracle.exercise, Clock(share=1 / 3)
    outcomes = list(done or ())
    with one_thread(), language_kept_patched(), checked(exercise.id):
        for i in range(len(outcomes), len(oracle.cases)):
            case = oracle.cases[i]
            clock.limit = oracle.time_limit(i)
            outcome = runner(
                answer,
                case,
                forbids=() if quick and i else exercise.forbids,
                clock=clock,
                launch=exercise.caller,
                names=exercise.input_names(case),
            )
            outcomes.append(outcome)
            if stopped(outcomes) or (quick and failure(oracle, i, outcome)):
                break
    return outcomes


def stopped(outcomes: list[Outcome]) -> bool:
    """Return whether the last outcome forbids to run any other case."""
    stops = OutOfTime | NotImplementedError | Forbidden
    return isinstance(outcomes[-1].error, stops)


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


# --- the reference in the place of a wrong answer ----------------------------

#: The id of the exercise whose answer is running.
_checking: ContextVar[str | None] = ContextVar("checking", default=None)


@contextmanager
def checked(exercise_id: str) -> Iterator[None]:
    """Tell a reference in an answer's place which exercise is checked."""
    token = _checking.set(exercise_id)
    try:
        yield
    finally:
        _checking.reset(token)


def fallback(exercise: Exercise) -> Any:
    """Return the reference for the place of a wrong answer: a chapter goes on.

    It is marked, and never passes as an answer.
    """

    def refusing(function: Any) -> Any:
        if function.__name__ == "_reference":  # a learner reads its name
            function.__qualname__ = exercise.name

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if _checking.get() == exercise.id:
                raise RuntimeError(
                    f"this {exercise.name} is the reference, put there so "
                    "that the chapter goes on: write your own"
                )
            return function(*args, **kwargs)

        # Without its source, which ``??`` would show.
        own: Any = call
        own.__signature__ = inspect.signature(vars(call).pop("__wrapped__"))
        own.__code__ = own.__code__.replace(co_filename="<the book>")
        return call

    marked: Any
    reference = exercise.reference
    if exercise.launch:
        marked = Emulated(refusing(reference.function))
    elif inspect.isclass(reference):
        own = {"__init__": refusing(reference.__init__)}
        own["__doc__"] = reference.__doc__
        marked = type(exercise.name, (reference,), own)
    else:
        marked = refusing(reference)
    marked.__attn_reference__ = exercise.id
    return marked


def fallback_of(answer: Any) -> str | None:
    """Return the exercise for which the reference took the answer's place."""
    return getattr(answer, "__attn_reference__", None)
