"""An object keeps what its task says; memory has a limit."""

from collections import deque
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from attn.exercises.spec import Case
from attn.grading.checks.objects import held_memory, parameters
from attn.grading.checks.run import run
from tests.grading.diagnosis.own_mistakes import judged, rows

MORE = "More is kept between calls than the task allows"
EXTRA = "Parameters that the task does not have"
#: Edits of solutions, and the mistake's name.
KEPT = f"""
cache-StaticCache | num_kv_heads, capacity, head_dim)\
 => num_kv_heads, capacity + 30, head_dim) | {MORE}
cache-StaticCache | "value", torch.zeros(shape)) =>\
 "value", torch.zeros(shape)); self.spare =\
 [{{"key": self.key.clone(), "value": self.value.clone()}}] | {MORE}
cache-StaticCache | self.register_buffer("key", torch.zeros(shape)) =>\
 self.key = nn.Parameter(torch.zeros(shape))\
 ; self.key.index_copy_ => self.key.data.index_copy_\
 ; return out => return out.detach() | {EXTRA}
iface-NoRope | self.head_dim = head_dim => self.head_dim = head_dim;\
 self.table = nn.Parameter(torch.ones(4)) | {EXTRA}
cache-StaticCache | "value", torch.zeros(shape)) =>\
 "value", torch.zeros(shape)); mask = torch.ones(capacity, capacity).bool();\
 self.register_buffer("mask", mask.tril());\
 self.first = self.key[:, :1], self.value.mT | None
iface-NoRope | self.head_dim = head_dim => self.head_dim = head_dim;\
 self.table = nn.Parameter(torch.ones(4), requires_grad=False) | None
"""


@pytest.mark.parametrize(("exercise", "edit", "mistake"), rows(KEPT))
def test_too_much_memory_and_parameters_are_refused_and_named(
    exercise, edit, mistake
):
    verdict = judged(exercise, edit)
    assert verdict.passed == (mistake == "None")
    assert str(verdict.mistake) == mistake
    if mistake == MORE:
        assert "memory between calls is measured" in verdict.condition


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


def test_memory_is_found_in_whatever_holds_it_and_counted_once():
    module = nn.Linear(2, 3, bias=False)
    sizes = [torch.ones(n) for n in (4, 5, 7, 8)]
    module.kept = [{"a": module.weight.detach()[1:]}, (sizes[0],)]
    module.kept += [deque([sizes[1]]), partial(torch.add, sizes[2])]
    module.kept += [Box(Slots(sizes[3])), module.kept]
    assert sorted(held_memory(module).values()) == [4, 5, 6, 7, 8]


def test_what_is_no_module_or_is_not_ready_is_said():
    class Unready(nn.Module):
        def __init__(self):
            pass

    with pytest.raises(AttributeError, match="no attribute '_"):
        parameters(Unready())
    with pytest.raises(TypeError, match="Box must be a subclass of nn.Module"):
        parameters(Box(1))


X = torch.arange(6.0).reshape(2, 3)
BLOCKS = [torch.full((4,), float(i)) for i in range(8)]


@pytest.mark.parametrize(
    "beside", [lambda x: x.tolist(), lambda x: x.numpy(), np.asarray]
)
def test_numbers_beside_tensors_count_as_memory(beside):
    case = Case("room for three", (X,), max_live=2)
    outcome = run(lambda x: len(beside(x)), case, forbids=("softmax",))
    assert "it holds 6 elements" in outcome.side_effect.text


def test_memory_above_the_limit_is_reported_with_both_sizes():
    case = Case("room for three", (X,), max_live=18)
    added_up = run(lambda x: sum((x * i for i in range(5)), x), case)
    assert added_up.error is None and not added_up.side_effect
    stacked = run(
        lambda x: torch.stack([x * i for i in range(5)]).sum(0), case
    )
    assert stacked.error is None
    sizes = "it holds 60 elements beyond its inputs, where 18 are enough"
    assert sizes in stacked.side_effect.text
    assert "(5, 2, 3)" in stacked.side_effect.text


def once(answer, **options):
    case = Case("blocks", (BLOCKS,), once=("args.0",), **options)
    return run(answer, case, names=["scores"])


@pytest.mark.parametrize(
    "forwards",
    [
        list,
        lambda x: [x[i] for i in range(len(x))],
        lambda x: [x[i] + 0 * x[i] for i, _ in enumerate(range(8))],
        lambda x: [x[0], *x][1:],  # an index does not use a block up
        lambda x: [x[0], *x[1:]],
        lambda x: [next(x), *x],
        lambda x: [block for _, block in zip(range(8), x[0:], strict=False)],
    ],
    ids=range(7),
)
def test_each_block_is_read_once_and_in_order(forwards):
    outcome = once(lambda blocks: torch.stack(forwards(blocks)))
    assert outcome.error is None
    assert torch.equal(outcome.output, torch.stack(BLOCKS))


@pytest.mark.parametrize(
    "back",
    [
        lambda x: [list(x) for _ in range(2)],
        lambda x: x[::-1],
        lambda x: x[-1],
        lambda x: x[:2],
        lambda x: (x[1], x[0]),
        lambda x: (x[3], x[2:]),
        lambda x: [x[0] for _ in x],
    ],
    ids=range(7),
)
def test_blocks_read_out_of_order_are_an_error(back):
    error = once(back).error
    assert isinstance(error, TypeError)
    assert "of scores cannot be read here" in str(error)


def test_blocks_that_are_kept_count_as_memory():
    def total(blocks):
        return sum(block.sum() for block in blocks)

    def listed(blocks):
        return total(list(blocks))

    assert not once(total, max_live=16).side_effect
    assert "it holds 3" in once(listed, max_live=16).side_effect.text


def test_a_block_changed_in_place_is_reported():
    outcome = once(lambda blocks: [block.sub_(1.0) for block in blocks])
    assert outcome.side_effect.text == "it changes scores in place"
