"""Put the reference in place of a wrong answer, so that a chapter goes on."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from attn.exercises.kernel import Emulated
from attn.exercises.spec import Exercise
from attn.grading.checks.failures import checking


def fallback(exercise: Exercise) -> Any:
    """Return the reference, marked, so that it never passes as an answer."""

    def refusing(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if checking.get() == exercise.id:
                raise RuntimeError(
                    f"this {exercise.name} is the reference, put there so "
                    "that the chapter goes on: write your own"
                )
            return function(*args, **kwargs)

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
