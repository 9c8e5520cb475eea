"""An answer draws where it must, and leaves global generators alone."""

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.random.mtrand import get_bit_generator, set_bit_generator
from torch import nn

from attn.exercises.spec import find
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.mutation_testing import solution

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

    before = torch.get_rng_state(), random.getstate(), get_bit_generator()
    message = judge(FUNCTION, answer).message
    assert f"it draws random numbers from {library} global" in message
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert get_bit_generator() is before[2]


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
