"""A mistake is named by the input with which the reference gives the same."""

import pytest
import torch

from attn.exercises.spec import find
from attn.grading.diagnosis.judge import judge
from tests.grading.diagnosis.own_mistakes import with_mistakes


def _grouped(query, key, value, mask=None):
    rows = query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)
    scores = rows @ key.mT / query.shape[-1] ** 0.5
    scores = scores.view(*query.shape[:-1], -1)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1).nan_to_num(0)
    weights = weights.unflatten(1, (key.shape[1], -1))
    return (weights.flatten(2, 3) @ value).view(*query.shape[:-1], -1)


def _one_token_more(
    batch,
    seq_len,
    num_layers,
    num_kv_heads,
    head_dim,
    dtype=torch.bfloat16,
):
    heads = num_layers * num_kv_heads * head_dim
    return 2 * batch * (seq_len + 1) * heads * dtype.itemsize


def _float32_by_default(
    batch, seq_len, num_layers, num_kv_heads, head_dim, dtype=torch.float32
):
    heads = num_layers * num_kv_heads * head_dim
    return 2 * batch * seq_len * heads * dtype.itemsize


def _table_of_shapes():
    """Return a mask that keeps the first of each shape."""
    masks = {}

    def causal(q_len, kv_len, q_offset=0):
        mask = torch.ones(q_len, kv_len).tril(q_offset).bool()
        return masks.setdefault((q_len, kv_len), mask)

    return causal


@pytest.mark.parametrize(
    ("exercise_id", "answer", "name"),
    [
        (
            "sdpa-softcap",
            lambda s, cap, attn_mask=None: cap * torch.tanh(s / cap),
            "attn_mask is ignored",
        ),
        (
            "gqa-grouped_attention",
            lambda q, k, v, attn_mask=None: _grouped(
                q / q.shape[-1] ** 0.5, k, v, attn_mask
            ),
            "The scale is applied twice",
        ),
        (
            "gqa-grouped_attention",
            lambda q, k, v, attn_mask=None: _grouped(
                q, k, v, None if attn_mask is None else ~attn_mask
            ),
            "attn_mask is inverted",
        ),
        (
            "gqa-kv_cache_bytes",
            _one_token_more,
            "Off by one: computed with seq_len one more",
        ),
        (
            "gqa-kv_cache_bytes",
            _float32_by_default,
            "The default of dtype is torch.float32",
        ),
        (
            "rope-frequencies",
            lambda d, base=10000.0: (1 / base) ** -(torch.arange(0, d, 2) / d),
            "Computed with 1 / base",
        ),
        (
            "why-soft_lookup",
            lambda q, k, v, temperature=1.0: (
                (q @ k.mT / temperature).softmax(-1) @ k
            ),
            "key instead of value",
        ),
        (
            "sdp-attention_loops",
            lambda q, k, v: (
                (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)[:, :-1] @ v[:-1]
            ),
            "The last key of value is left out",
        ),
        (
            "mask-causal",
            _table_of_shapes(),
            "A result is remembered by part of the arguments",
        ),
    ],
)
def test_another_input_says_what_the_answer_does(exercise_id, answer, name):
    verdict = judge(with_mistakes(exercise_id), answer)
    assert verdict.mistake == name, verdict.message


def test_a_factor_is_that_of_an_input_which_some_calls_leave_out():
    exercise = with_mistakes("tfm-tie_and_init")
    (mistake,) = (
        x
        for x in find("tfm-tie_and_init").mistakes
        if x.name == "The embedding keeps size 1"
    )
    assert (
        judge(exercise, mistake.answer).mistake == "Off by the factor 1 / std"
    )
