"""Keep one oracle of an exercise for all tests: the reference runs once."""

from dataclasses import replace
from functools import cache

from attn.exercises.spec import Exercise, find
from attn.grading.checks.oracle import Oracle


@cache
def oracle(exercise_id: str) -> Oracle:
    """Return the oracle of seed 0; no test may add mistakes to it."""
    return Oracle(find(exercise_id), 0)


def thinned(exercise: Exercise) -> Exercise:
    """Copy an exercise with half its styles, and a twentieth of its mistakes.

    The list leads from an answer's start to its end. A kernel, which is
    interpreted, has half as many of both.
    """
    step = 2 if exercise.launch else 1
    copy = replace(exercise)
    vars(copy)["equivalents"] = exercise.equivalents[:: 2 * step]
    vars(copy)["mistakes"] = exercise.mistakes[:: 20 * step]
    return copy
