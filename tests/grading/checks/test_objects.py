"""An object has the parameters of the task, and holds no more memory."""

from collections import deque
from functools import partial

import pytest
import torch
from torch import nn

from attn.exercises.spec import Case, find
from attn.grading.checks.objects import held_memory, parameters
from attn.grading.checks.run import run
from attn.grading.diagnosis.judge import judge, solution

STATIC = find("cache-StaticCache")
Right = solution(STATIC)
NO_ROPE = solution(find("iface-NoRope"))


class Roomy(Right):
    def __init__(self, batch, num_kv_heads, capacity, head_dim):
        super().__init__(batch, num_kv_heads, capacity + 30, head_dim)


class Spare(Right):
    def __init__(self, batch, num_kv_heads, capacity, head_dim):
        super().__init__(batch, num_kv_heads, capacity, head_dim)
        self.spare = [{"key": self.key.clone(), "value": self.value.clone()}]


@pytest.mark.parametrize("answer", [Roomy, Spare])
def test_a_cache_that_holds_too_much_between_calls_is_named(answer):
    verdict = judge(STATIC, answer)
    assert "memory between calls is measured" in verdict.condition
    name = "More is kept between calls than the task allows"
    assert verdict.mistake == name


def test_a_mask_for_all_places_and_views_of_the_memory_are_accepted():
    class Masked(Right):
        def __init__(self, batch, num_kv_heads, capacity, head_dim):
            super().__init__(batch, num_kv_heads, capacity, head_dim)
            ones = torch.ones(capacity, capacity, dtype=torch.bool)
            self.register_buffer("mask", ones.tril())
            self.first = self.key[:, :1], self.value.mT

    assert judge(STATIC, Masked).passed


def test_shared_memory_is_counted_once_wherever_it_is():
    module = nn.Linear(2, 3)
    module.inner = [{"a": module.weight.detach()[1:]}, (torch.ones(4),)]
    module.inner.append(module.inner)
    assert sum(held_memory(module).values()) == 6 + 3 + 4


def test_an_earlier_call_that_may_raise_does_not_count():
    def picky(x):
        if x > 1:
            raise ValueError("too large")
        return x

    earlier = Case("", (2.0,), may_raise=True)
    assert run(picky, Case("", (1.0,), before=(earlier,))).output == 1
    earlier = Case("", (2.0,))
    assert run(picky, Case("", (1.0,), before=(earlier,))).error


class Box:
    def __init__(self, x):
        self.x = x


class Slots:
    __slots__ = ("empty", "x")

    def __init__(self, x):
        self.x = x


HOLDERS = {
    "an object": Box,
    "an object with slots": Slots,
    "a dict": lambda x: {"x": x},
    "a deque": lambda x: deque([x]),
    "a partial": lambda x: partial(torch.add, x),
    "an object in an object": lambda x: Box(Slots(x)),
}


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
def test_memory_is_found_in_whatever_holds_it(holder):
    module = nn.Linear(2, 3, bias=False)
    module.kept = holder(torch.ones(5))
    assert sum(held_memory(module).values()) == 6 + 5


def test_what_is_no_module_or_is_not_ready_is_said():
    class Unready(nn.Module):
        def __init__(self):
            pass

    with pytest.raises(AttributeError, match="no attribute '_"):
        parameters(Unready())
    with pytest.raises(TypeError, match="Box must be a subclass of nn.Module"):
        parameters(Box(1))


class LearnsItsMemory(Right):
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


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("cache-StaticCache", LearnsItsMemory),
        ("iface-NoRope", LearnsItsTable),
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
