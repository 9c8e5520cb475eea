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

CACHE, NO_ROPE = "cache-StaticCache", "iface-NoRope"
Cache, NoRope = solution(find(CACHE)), solution(find(NO_ROPE))
MORE = "More is kept between calls than the task allows"
EXTRA = "Parameters that the task does not have"


def made(base, do):
    """Return a right class, but that its constructor also does this."""

    class Answer(base):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            do(self)

    return Answer


class Roomy(Cache):
    def __init__(self, batch, num_kv_heads, capacity, head_dim):
        super().__init__(batch, num_kv_heads, capacity + 30, head_dim)


class LearnsItsMemory(Cache):
    def __init__(self, **sizes):
        super().__init__(**sizes)
        memory = self.key
        del self.key
        self.key = nn.Parameter(memory)

    def forward(self, query, key, value, position):
        with torch.no_grad():
            return super().forward(query, key, value, position)


def spare(cache):
    cache.spare = [{"key": cache.key.clone(), "value": cache.value.clone()}]


def a_mask_and_views(cache):
    ones = torch.ones(2 * (cache.key.shape[2],), dtype=torch.bool)
    cache.register_buffer("mask", ones.tril())
    cache.first = cache.key[:, :1], cache.value.mT


def a_table(module, learnable=False):
    module.table = nn.Parameter(torch.ones(4), requires_grad=learnable)


@pytest.mark.parametrize(
    ("exercise", "answer", "mistake"),
    [
        (CACHE, Roomy, MORE),
        (CACHE, made(Cache, spare), MORE),
        (CACHE, LearnsItsMemory, EXTRA),
        (NO_ROPE, made(NoRope, partial(a_table, learnable=True)), EXTRA),
        (CACHE, made(Cache, a_mask_and_views), None),
        (NO_ROPE, made(NoRope, a_table), None),  # frozen
    ],
    ids=lambda x: "",
)
def test_too_much_memory_and_parameters_are_refused_and_named(
    exercise, answer, mistake
):
    verdict = judge(find(exercise), answer)
    assert verdict.passed == (mistake is None)
    assert verdict.mistake == mistake
    if mistake == MORE:
        assert "memory between calls is measured" in verdict.condition


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
    __init__ = Box.__init__


@pytest.mark.parametrize(
    "holder",
    [
        lambda x: deque([x]),
        lambda x: partial(torch.add, x),
        lambda x: Box(Slots(x)),
    ],
)
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
