"""A mistake that is on no list gets a true name, or none."""

import random

import pytest

from attn.exercises.spec import find
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.oracle import Oracle
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.mutants import mutants
from tests.grading.diagnosis.own_mistakes import unlisted

#: Listed mistakes, and a name that is false, or true, when no list has them.
FALSE = """
cache-attention_cost | Only the memory takes time | peak squared
rope-llama3_scaling | There is no mixed zone: a cut at the high | -low_freq
why-soft_lookup | Divided by the temperature and the root | applied twice
gqa-pool_heads | The groups are averaged | off by one
"""
MORE_FALSE = """
cache-attention_cost | Only the arithmetic takes time | counts twice
flash-tiled_backward | The return is inside the loop | wrong order
tfm-tie_and_init | The tied tensor is detached | factor
rope-permute_weights | The heads are an axis of the result | off by one
"""
TRUE = """
gqa-pool_heads | The rows of a head are averaged | Along another axis
rope-apply_rope | It rotates the other way round | Computed with -inv_freq
"""
MORE_TRUE = """
cache-attention_cost | Only the arithmetic takes time | A bound is missing
why-kernel_regression | The bandwidth is not squared | An exponent is missing
tfm-sample | The square of the temperature | Computed with temperature squ
"""


def rows(table, more):
    """Return the lines of two tables as parameters; the second's are slow."""
    return [
        pytest.param(*line.split(" | "), id=line, marks=marks)
        for text, marks in ((table, ()), (more, pytest.mark.exhaustive))
        for line in text.strip().splitlines()
    ]


def name_of(exercise_id, mistake):
    """Return the name that a listed mistake gets when it is on no list."""
    exercise, mistake = unlisted(exercise_id, mistake)
    return judge(exercise, mistake.answer).mistake or ""


@pytest.mark.parametrize(
    ("exercise_id", "mistake", "name"), rows(FALSE, MORE_FALSE)
)
def test_a_false_name_is_not_given(exercise_id, mistake, name):
    assert name not in name_of(exercise_id, mistake)


@pytest.mark.parametrize(
    ("exercise_id", "mistake", "name"), rows(TRUE, MORE_TRUE)
)
def test_a_true_name_is_given(exercise_id, mistake, name):
    assert name in name_of(exercise_id, mistake)


@pytest.mark.parametrize(
    ("exercise_id", "condition"),
    [
        ("serve-match_prefix", "the prompt is cached whole"),
        ("pos-alibi_slopes", "the number of heads is another power of two"),
    ],
)
def test_a_change_without_an_end_is_stopped_by_its_turns(
    exercise_id, condition
):
    """Each would take five seconds of the learner's, and there are many."""
    oracle = Oracle(find(exercise_id), 0)
    errors = [
        oracle.run(x, i).error
        for x in mutants(oracle.exercise)
        for i, case in enumerate(oracle.cases)
        if case.condition == condition
    ]
    assert any(isinstance(x, OverflowError) for x in errors)
    assert not any(isinstance(x, OutOfTime) for x in errors)


@pytest.mark.parametrize("seed", range(2))
def test_names_in_the_order_of_a_set_are_not_called_sorted(seed):
    """The order of a set is drawn when Python starts: here, by a seed."""
    exercise = find("iface-Registry")
    (right, *_) = exercise.equivalents

    class Registry(right.answer):
        def names(self):
            names = sorted(super().names())
            return random.Random(seed).sample(names, len(names))

    assert "sorted" not in (judge(exercise, Registry).mistake or "")
