"""Attention equals the eager functions of transformers' models."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from transformers.models.gemma2 import modeling_gemma2 as gemma2
from transformers.models.gpt_oss import modeling_gpt_oss as gpt_oss
from transformers.models.llama import modeling_llama as llama

import attn
from tests.attn.cases import Sizes, assert_exact, qkv

SIZES = Sizes("", (2,), 6, 2, 5, 7, 8, 8)
DTYPES = pytest.mark.parametrize(
    "dtype", (torch.float64, torch.float32, torch.bfloat16), ids=str
)
VALID = torch.tensor([[1] * 7, [0, 0, 1, 1, 1, 1, 1]]).bool()
OFFSET = SIZES.S - SIZES.L
MASK = attn.causal() & attn.padding(VALID)


def eager(module, q, k, v, mask, **options):
    """Their function, in their layout: (B, L, H, D) out, additive mask."""
    owner = SimpleNamespace(
        num_key_value_groups=q.shape[1] // k.shape[1],
        training=False,
        head_dim=q.shape[-1],
        sinks=options.pop("sinks", None),
    )
    options.setdefault("scaling", q.shape[-1] ** -0.5)
    out, weights = module.eager_attention_forward(
        owner, q, k, v, mask, **options
    )
    return out.transpose(1, 2), weights


def their_mask(dtype):
    """HF's additive mask: finfo.min, so that no row may be dead here."""
    at = {"batch": 2, "q_offset": OFFSET}
    allowed = MASK.dense(SIZES.L, SIZES.S, **at)
    assert allowed.any(-1).all()
    lowest = torch.finfo(dtype).min
    return torch.zeros(allowed.shape, dtype=dtype).masked_fill(
        ~allowed, lowest
    )


def assert_equal_to_eager(module, dtype, ours, theirs):
    q, k, v = qkv(SIZES, dtype)
    mine = attn.scaled_dot_product_attention(
        q, k, v, MASK, enable_gqa=True, q_offset=OFFSET, **ours
    )
    rival, _ = eager(module, q, k, v, their_mask(dtype), **theirs)
    doubles = [x.double() for x in (q, k, v)]
    exact = {
        name: x.double() if isinstance(x, torch.Tensor) else x
        for name, x in theirs.items()
    }
    fp32_softmax = module is not gpt_oss
    oracle, _ = eager(module, *doubles, their_mask(torch.float64), **exact)
    if fp32_softmax and dtype == torch.float64:
        # Theirs takes the softmax in float32 whatever comes in.
        error = (mine - oracle).abs().max()
        assert error < 16 * torch.finfo(torch.float32).eps
    else:
        assert_exact(mine, oracle, rival)


@DTYPES
def test_attention_with_a_mask_and_groups_equals_llamas(dtype):
    assert_equal_to_eager(llama, dtype, {}, {})


@DTYPES
def test_attention_with_softcap_and_scale_equals_gemma_2s(dtype):
    assert_equal_to_eager(
        gemma2,
        dtype,
        {"softcap": 1.5, "scale": 0.6},
        {"softcap": 1.5, "scaling": 0.6},
    )


@DTYPES
def test_attention_with_sinks_equals_that_of_gpt_oss(dtype):
    sinks = torch.linspace(-2, 3, SIZES.H, dtype=dtype)
    assert_equal_to_eager(gpt_oss, dtype, {"sinks": sinks}, {"sinks": sinks})


def test_attention_weights_with_sinks_equal_those_of_gpt_oss():
    q, k, v = qkv(SIZES, torch.float32)
    sinks = torch.linspace(-2, 3, SIZES.H)
    scores, weights = attn.attention_weights(
        q, k, v, attn_mask=MASK, enable_gqa=True, q_offset=OFFSET, sinks=sinks
    )
    _, theirs = eager(gpt_oss, q, k, v, their_mask(torch.float32), sinks=sinks)
    assert_exact(weights, theirs.double())
    assert (weights.sum(-1) < 1).all(), "the sink takes its share"
