"""Run the cases on an answer, up to the first that forbids the others."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from attn.exercises.kernel import Emulated
from attn.exercises.outcome import Forbidden, Outcome
from attn.exercises.spec import Exercise
from attn.grading.checks.clock import Clock, OutOfTime
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.problems import failure
from attn.grading.checks.run import run
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
