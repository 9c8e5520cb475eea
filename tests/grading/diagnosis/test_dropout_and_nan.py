"""Dropout draws differ, and much gives NaN: neither proves a mistake."""

import math

import pytest
import torch

from attn.exercises.outcome import Outcome
from attn.exercises.spec import Case, find
from attn.grading.checks.evidence import agree
from attn.grading.diagnosis.judge import judge
from tests.grading.diagnosis.own_mistakes import judged

KEEP = "(torch.rand_like(weights) > dropout_p)"
COINS = "F.dropout(torch.ones(weights.shape[-{}:], dtype=dtype), dropout_p)"


def verdict(kept):
    """Judge the solution with weights multiplied by another dropout."""
    return judged(
        "sdpa-scaled_dot_product_attention",
        "- weights = F.dropout(weights.masked_fill(dead, 0), dropout_p)\n"
        "+ weights = weights.masked_fill(dead, 0)\n"
        f"+ weights = weights * {kept} if dropout_p else weights",
    )


ZERO_OVER_ZERO = f"{KEEP} / (1 - dropout_p)"
FACTOR = "Survivors are unscaled, or divided by p or a sum, not 1 - p"
COINS_SHARED = "Heads and sequences share coins instead of having their own"


@pytest.mark.parametrize(
    ("kept", "name"),
    [
        (KEEP, FACTOR),
        (f"{KEEP} / dropout_p", FACTOR),
        (ZERO_OVER_ZERO, "Divided by 1 - p even at p = 1, not only below 1"),
        (COINS.format(2), COINS_SHARED),
        (COINS.format(3), None),
    ],
    ids=["not scaled", "by p", "0 / 0", "shared", "shared by the batch"],
)
def test_a_mistake_in_dropout_is_named_whichever_elements_it_drops(kept, name):
    wrong = verdict(kept)
    assert not wrong.passed
    assert wrong.mistake == name
    if kept == ZERO_OVER_ZERO:  # where all is dropped, no draw is to blame
        assert "NaN" in wrong.message
        assert "random numbers" not in wrong.message


def test_dropout_by_hand_is_accepted():
    assert verdict(f"({ZERO_OVER_ZERO} if dropout_p < 1 else 0)").passed


def test_the_tolerance_of_random_results_needs_two_random_outcomes():
    case = Case("", (), train=True, rtol=0.1)

    def outcome(x, random_used=("PyTorch",)):
        return Outcome(torch.tensor([x]), random_used=frozenset(random_used))

    assert agree(outcome(1.0), outcome(1.05), case)
    assert not agree(outcome(1.0), outcome(1.05, ()), case)
    assert not agree(outcome(1.0), outcome(1.5), case)


def test_a_gradient_of_nan_is_refused():
    """exp of a large sink is inf: x / inf is right, its gradient is NaN."""

    def answer(scores, sinks):
        top = scores.amax(-1, keepdim=True)
        top = top.masked_fill(top == -math.inf, 0)
        exps, sink = (scores - top).exp(), (sinks[:, None, None] - top).exp()
        return exps / (exps.sum(-1, keepdim=True) + sink)

    assert not judge(find("sdpa-sinks"), answer).passed
