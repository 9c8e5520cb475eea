"""Keep one oracle of an exercise for all tests: the reference runs once."""

from dataclasses import replace
from functools import cache

from attn.exercises.spec import Exercise, find
from attn.grading.checks.oracle import Oracle


@cache
def oracle(exercise_id: str) -> Oracle:
    """Return the oracle of seed 0; no test may add mistakes to it."""
    return Oracle(find(exercise_id), 0)


def with_every_tenth_mistake(exercise: Exercise) -> Exercise:
    """Copy an exercise: its list leads from a kernel's start to its end."""
    thinned = replace(exercise)
    vars(thinned)["mistakes"] = exercise.mistakes[::10]
    return thinned
