"""Each exercise's inputs leave every symmetric point that applies to it."""

from functools import cache

import pytest

from attn.exercises.spec import every_exercise
from attn.exercises.symmetry import POINTS
from attn.grading.checks.inputs import input_size, map_tensors
from tests.marks import exhaustive_but

EXERCISES = {x.id: x for x in every_exercise()}
BREAKS = [(x, point) for x, y in EXERCISES.items() for point in y.breaks]


@cache
def cases(exercise, seed):
    return EXERCISES[exercise].generate(seed)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_every_exercise_of_tensors_lists_its_symmetric_points(exercise):
    x = EXERCISES[exercise]
    has_tensors = any(input_size(case) for case in cases(exercise, 0))
    assert x.breaks or not has_tensors


def test_every_point_applies_somewhere():
    assert len(POINTS) == 10
    assert {point for _, point in BREAKS} == set(POINTS)


@pytest.mark.parametrize("seed", exhaustive_but([0], [0, 7]))
@pytest.mark.parametrize(("exercise", "point"), BREAKS)
def test_some_case_leaves_the_symmetric_point(exercise, point, seed):
    is_away = EXERCISES[exercise].breaks[point]
    left = [x.condition for x in cases(exercise, seed) if is_away(x)]
    assert left, f"{exercise} never leaves {point!r}: {POINTS[point]}"


def drawn(exercise, seed):
    """Return an exercise's cases as a text; a tensor's elements as bytes."""
    cases = [vars(case) for case in exercise.generate(seed)]
    return str(map_tensors(lambda x: x.double().numpy().tobytes(), cases))


def test_each_seed_draws_other_inputs():
    for exercise in EXERCISES.values():
        assert drawn(exercise, 0) != drawn(exercise, 1), exercise.id
