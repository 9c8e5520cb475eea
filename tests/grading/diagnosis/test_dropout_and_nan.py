"""Dropout draws differ, and much gives NaN: neither proves a mistake."""

import math

import pytest
import torch
import torch.nn.functional as F

from attn.exercises.spec import Case, find
from attn.grading.checks.evidence import agree
from attn.grading.checks.run import Outcome
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.partly_listed import replaces_nan

SDPA = "sdpa-scaled_dot_product_attention"


def dropping(drop):
    """Return an attention with another dropout of the weights."""

    def answer(
        query,
        key,
        value,
        attn_mask=None,
        dropout_p=0.0,
        is_causal=False,
        scale=None,
        enable_gqa=False,
    ):
        wide = torch.promote_types(query.dtype, torch.float32)
        q, k, v = (x.to(wide) for x in (query, key, value))
        if enable_gqa:
            k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
            v = v.repeat_interleave(q.shape[-3] // v.shape[-3], -3)
        s = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            s = s.masked_fill(~attn_mask, -math.inf)
        elif attn_mask is not None:
            s = s + attn_mask
        if is_causal:
            s = s.masked_fill(
                ~torch.ones(s.shape[-2:]).tril().bool(), -math.inf
            )
        dead = (s == -math.inf).all(-1, keepdim=True)
        p = s.masked_fill(dead, 0).softmax(-1).masked_fill(dead, 0)
        p = drop(p, dropout_p) if dropout_p else p
        return (p @ v).to(query.dtype)

    return answer


def kept(p, rate):
    return p * (torch.rand_like(p) > rate)


def by_p(p, rate):
    return kept(p, rate) / rate


def zero_over_zero(p, rate):
    return kept(p, rate) / (1 - rate)


def shared(p, rate):
    return p * F.dropout(torch.ones(p.shape[-2:], dtype=p.dtype), rate)


def shared_by_the_batch(p, rate):
    return p * F.dropout(torch.ones(p.shape[-3:], dtype=p.dtype), rate)


@pytest.mark.parametrize(
    ("drop", "name"),
    [
        (kept, "What is not dropped does not grow"),
        (by_p, "What is left is divided by p"),
        (zero_over_zero, "0 is divided by 1 - p, which is 0"),
        (shared, "The same coins for all heads"),
        (shared_by_the_batch, None),
    ],
    ids=lambda x: getattr(x, "__name__", "-"),
)
def test_a_mistake_in_dropout_is_named_whichever_elements_it_drops(drop, name):
    verdict = judge(find(SDPA), dropping(drop))
    assert not verdict.passed
    assert verdict.mistake == name


def test_dropout_by_hand_is_accepted():
    def drop(p, rate):
        return kept(p, rate) / (1 - rate) if rate < 1 else p * 0

    assert judge(find(SDPA), dropping(drop)).passed


def test_nan_is_not_blamed_on_random_numbers():
    """Coins of which nothing is left are not what is wrong with a NaN."""
    message = judge(find(SDPA), dropping(zero_over_zero)).message
    assert "NaN" in message and "random numbers" not in message


def test_the_tolerance_of_random_results_needs_two_random_outcomes():
    case = Case("", (), train=True, rtol=0.1)
    coin = frozenset({"PyTorch"})
    first, second = (
        Outcome(torch.tensor([x]), random_used=coin) for x in (1.0, 1.05)
    )
    assert agree(first, second, case)
    assert not agree(first, Outcome(torch.tensor([1.05])), case)
    assert not agree(
        first, Outcome(torch.tensor([1.5]), random_used=coin), case
    )


@pytest.mark.parametrize(
    ("number", "fits"), [(0.0, True), (1e-44, False), (-math.inf, False)]
)
def test_nans_count_as_replaced_only_by_the_same_number(number, fits):
    other = torch.tensor([1.0, math.nan, math.nan])
    assert replaces_nan(torch.tensor([1.0, 0.0, number]), other, 0.0) == fits


def test_a_mistake_that_avoids_the_listed_nan_is_named_with_the_difference():
    """The answer is a softmax without a sink, right where those are NaN."""

    def answer(scores, sinks):
        empty = (scores == -math.inf).all(-1, keepdim=True)
        weights = scores.masked_fill(empty, 0).softmax(-1)
        return weights.masked_fill(empty, 0)

    verdict = judge(find("sdpa-sinks"), answer)
    assert verdict.mistake.startswith("The sink is ignored")
    assert "renormalised" not in verdict.mistake  # it has NaN elsewhere
    message = " ".join(verdict.message.split())
    assert "but not when" in message and "a query has no key" in message


def test_a_gradient_of_nan_is_refused():
    """exp of a large sink is inf: x / inf is right, its gradient is NaN."""

    def answer(scores, sinks):
        top = scores.amax(-1, keepdim=True)
        top = top.masked_fill(top == -math.inf, 0)
        exps, sink = (scores - top).exp(), (sinks[:, None, None] - top).exp()
        return exps / (exps.sum(-1, keepdim=True) + sink)

    assert not judge(find("sdpa-sinks"), answer).passed
