"""A constructor makes the parameters of the task, with the values it says."""

import pytest
import torch
from torch import nn

from attn.exercises.spec import find
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.mutation_testing import solution

BLOCK = find("tfm-TransformerBlock")
STATIC = solution(find("cache-StaticCache"))
NO_ROPE = solution(find("iface-NoRope"))
CACHE = solution(find("cache-KVCache"))


@pytest.mark.parametrize("make", [torch.zeros_like, torch.randn_like])
def test_other_initial_values_than_the_task_says_are_refused(make):
    class Other(solution(BLOCK)):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.feed_forward_norm.data = make(self.feed_forward_norm)

    verdict = judge(BLOCK, Other)
    assert "have their initial values" in verdict.condition
    assert verdict.mistake == "Other initial values"


class LearnsItsMemory(STATIC):
    def __init__(self, **sizes):
        super().__init__(**sizes)
        memory = self.key
        del self.key
        self.key = nn.Parameter(memory)

    def forward(self, query, key, value, position):
        with torch.no_grad():
            return super().forward(query, key, value, position)


class LearnsItsTable(NO_ROPE):
    def __init__(self, head_dim):
        super().__init__(head_dim)
        self.table = nn.Parameter(torch.ones(head_dim))


class LearnsAScale(CACHE):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("cache-StaticCache", LearnsItsMemory),
        ("iface-NoRope", LearnsItsTable),
        ("cache-KVCache", LearnsAScale),
    ],
)
def test_parameters_that_a_task_does_not_have_are_refused_and_named(
    exercise, answer
):
    verdict = judge(find(exercise), answer)
    assert not verdict.passed
    assert verdict.mistake == "Parameters that the task does not have"


def test_a_frozen_parameter_is_a_table_like_any_other():
    class Frozen(NO_ROPE):
        def __init__(self, head_dim):
            super().__init__(head_dim)
            ones = torch.ones(head_dim)
            self.table = nn.Parameter(ones, requires_grad=False)

    assert judge(find("iface-NoRope"), Frozen).passed
