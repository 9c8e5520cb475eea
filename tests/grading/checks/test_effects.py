"""An answer leaves its inputs and the global generators alone."""

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.random.mtrand import get_bit_generator, set_bit_generator
from torch import nn

from attn.exercises.solution import solution
from attn.exercises.spec import Case, find
from attn.grading.checks.run import run
from attn.grading.diagnosis.judge import judge

X = torch.arange(6.0).reshape(2, 3)
CASE = Case("anything", (X,))
FUNCTION = find("sdp-attention")
right = solution(FUNCTION)
DROPOUT = find("sdpa-scaled_dot_product_attention")
sdpa = solution(DROPOUT)


def seeded(*args, **kwargs):
    torch.manual_seed(0)
    return sdpa(*args, **kwargs)


def forked(*args, **kwargs):
    with torch.random.fork_rng(devices=[]):
        return sdpa(*args, **kwargs)


def of_its_own(
    query, key, value, attn_mask=None, dropout_p=0.0, *args, **kwargs
):
    if not dropout_p:
        return sdpa(query, key, value, attn_mask, 0.0, *args, **kwargs)
    generator = torch.Generator().manual_seed(0)
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
    keep = torch.rand(weights.shape, generator=generator) >= dropout_p
    return weights * keep / max(1 - dropout_p, 1e-9) @ value


@pytest.mark.parametrize("answer", [seeded, forked, of_its_own])
def test_an_answer_that_seeds_its_random_numbers_is_refused(answer):
    verdict = judge(DROPOUT, answer)
    assert not verdict.passed
    if answer is not seeded:  # it seeds where nothing is random, too
        assert "the same coins at each call" in verdict.message


@pytest.mark.parametrize(
    ("touch", "library"),
    [
        (lambda: torch.rand(3), "PyTorch's"),
        (lambda: torch.manual_seed(0), "PyTorch's"),
        (lambda: nn.Linear(2, 2), "PyTorch's"),
        (lambda: np.random.rand(3), "NumPy's"),
        (lambda: np.random.randn(1), "NumPy's"),  # half of a pair is kept
        (lambda: np.random.seed(0), "NumPy's"),
        (lambda: set_bit_generator(np.random.PCG64(0)), "NumPy's"),
        (lambda: random.random(), "Python's"),
        (lambda: random.seed(0), "Python's"),
    ],
)
def test_drawing_from_a_global_generator_is_refused_and_undone(touch, library):
    def answer(*args):
        touch()
        return right(*args)

    states = torch.get_rng_state, random.getstate, np.random.get_state
    before, generator = [str(x()) for x in states], get_bit_generator()
    message = judge(FUNCTION, answer).message
    assert f"it draws random numbers from {library} global" in message
    assert [str(x()) for x in states] == before
    assert get_bit_generator() is generator


def test_a_check_leaves_a_replaced_global_generator_in_place():
    own, before = np.random.PCG64(0), get_bit_generator()
    try:
        set_bit_generator(own)
        state = own.state
        assert judge(FUNCTION, right).passed
        assert get_bit_generator() is own
        assert own.state == state
    finally:
        set_bit_generator(before)


def test_random_noise_is_not_reported_as_a_wrong_sum():
    def noisy(*args):
        return F.dropout(right(*args), 0.5)

    message = judge(FUNCTION, noisy).message
    assert "it draws random numbers" in message
    assert "sum to 1" not in message


INPUTS = {
    "tensor": lambda: (torch.arange(6.0),),
    "dict": lambda: ({"a.weight": torch.ones(2), "b": torch.zeros(2)},),
    "two": lambda: ({"a": torch.ones(2)}, [torch.ones(2), torch.zeros(2)]),
    "numbers": lambda: ([([3, 1], [7, 8])], {"a": (1, 3.5, None)}),
}


def replaces_and_adds(state, rows):
    state["b"] = rows[0] * 2
    rows[0] = rows[1]


@pytest.mark.parametrize(
    ("inputs", "change", "changed"),
    [
        ("tensor", lambda x: x.add_(1), "x"),
        ("dict", dict.popitem, "x"),
        ("dict", dict.clear, "x"),
        ("two", replaces_and_adds, "y, x"),
        ("two", lambda x, y: y[1].add_(1), "y[1]"),
        ("numbers", lambda x, y: x[0][1].pop(), "x"),
        ("numbers", lambda x, y: x.append(([4], [5])), "x"),
        ("numbers", lambda x, y: x[0][0].sort(), "x"),
        ("numbers", lambda x, y: y.update(a=(2, 3)), "y"),
        ("numbers", lambda x, y: y.pop("a"), "y"),
        ("numbers", lambda x, y: (x[0][0], y["a"]), None),
    ],
)
def test_a_changed_input_is_named_and_the_case_stays(inputs, change, changed):
    def answer(*given):
        change(*given)
        return torch.ones(2)

    case = Case("", INPUTS[inputs]())
    effect = run(answer, case, names=["x", "y"]).side_effect
    said = f"it changes {changed} in place" if changed else None
    assert (effect and effect.text) == said
    assert repr(case.args) == repr(INPUTS[inputs]())


def test_a_copy_in_place_of_a_shared_tensor_is_reported():
    case = Case("", (torch.ones(2),), one_tensor=("b.w", "a.w"))

    def effect(second):
        return run(lambda x: {"a.w": x, "b.w": second(x)}, case).side_effect

    assert effect(lambda x: x) is effect(lambda x: x.view(2)) is None
    two = "b.w and a.w are two tensors with equal numbers, not one"
    assert effect(torch.clone).text == two


def test_a_training_case_may_draw_the_same_random_numbers_each_time():
    before = torch.get_rng_state()
    case = Case("training", (X,), train=True)
    first, second = (run(torch.rand_like, case) for _ in range(2))
    assert not first.side_effect
    assert torch.equal(first.output, second.output)
    assert torch.equal(torch.get_rng_state(), before)
