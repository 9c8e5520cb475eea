"""Feedback in under a second: medians, measured alone."""

import statistics
import time

import pytest

from attn.exercises.spec import every_exercise
from attn.grading.judge import judge
from attn.grading.mutation_testing import solution


@pytest.mark.serial
@pytest.mark.parametrize("exercise", every_exercise(), ids=lambda x: x.id)
def test_a_right_answer_is_told_within_a_second(exercise):
    answer, seconds = solution(exercise), []
    for seed in range(3):
        start = time.perf_counter()
        assert judge(exercise, answer, seed=seed).passed
        seconds.append(time.perf_counter() - start)
    assert statistics.median(seconds) < 1.0, seconds
