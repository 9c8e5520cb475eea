"""Hugging Face's eager attention and mask functions say the same."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from transformers import masking_utils as hf
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


PLACES = [
    (L, S, offset)
    for L, S in ((1, 1), (1, 9), (4, 4), (3, 8), (7, 5))
    for offset in (0, S - L, 2)
    if offset >= 0
]
BLOCKS = torch.tensor(
    [[0, 0, 0, 1, 1, 2, 2, 2, 2, 3], [0, 1, 1, 1, 1, 1, 2, 2, 2, 2]]
)
TOKENS = torch.arange(10) % 4 != torch.tensor([[1], [3]])
NO_PADDING = torch.zeros(2, dtype=torch.int64)
MASKS = {
    "causal": (attn.causal(), hf.causal_mask_function),
    "sliding window": (
        attn.sliding_window(3),
        hf.sliding_window_causal_mask_function(3),
    ),
    "window of one": (
        attn.sliding_window(1),
        hf.sliding_window_causal_mask_function(1),
    ),
    "both sides": (
        attn.window(2, 2),
        hf.sliding_window_bidirectional_mask_function(2),
    ),
    "chunked": (
        attn.chunked(3) & attn.causal(),
        hf.chunked_causal_mask_function(3, NO_PADDING),
    ),
    "documents": (
        attn.documents(BLOCKS),
        hf.packed_sequence_mask_function(BLOCKS),
    ),
    "padding": (attn.padding(TOKENS), hf.padding_mask_function(TOKENS)),
    "as a tokenizer returns it": (
        attn.padding(TOKENS.long()),
        hf.padding_mask_function(TOKENS),
    ),
    "and": (
        attn.causal() & attn.documents(BLOCKS) & attn.padding(TOKENS),
        hf.and_masks(
            hf.causal_mask_function,
            hf.packed_sequence_mask_function(BLOCKS),
            hf.padding_mask_function(TOKENS),
        ),
    ),
    "or": (
        attn.causal() | attn.documents(BLOCKS),
        hf.or_masks(
            hf.causal_mask_function, hf.packed_sequence_mask_function(BLOCKS)
        ),
    ),
}


def by_transformers(function, L, S, q_offset, kv_offset=0):
    return hf.sdpa_mask(
        batch_size=2,
        q_length=L,
        kv_length=S,
        q_offset=q_offset,
        kv_offset=kv_offset,
        mask_function=function,
        allow_is_causal_skip=False,
    )


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_dense_masks_equal_those_of_transformers(name, place):
    mask, function = MASKS[name]
    L, S, q_offset = place
    ours = mask.dense(L, S, batch=2, q_offset=q_offset)
    theirs = by_transformers(function, L, S, q_offset)
    assert torch.equal(ours, theirs.expand_as(ours))


@pytest.mark.parametrize("name", MASKS)
def test_shifted_masks_equal_those_of_transformers(name):
    mask, function = MASKS[name]
    ours = mask.shift(q=4, kv=2).dense(3, 5, batch=2)
    theirs = by_transformers(function, 3, 5, 4, 2)
    assert torch.equal(ours, theirs.expand_as(ours))


def test_a_mask_is_a_mask_function_of_transformers():
    theirs = by_transformers(MASKS["and"][0], 4, 6, 2)
    ours = MASKS["and"][0].dense(4, 6, batch=2, q_offset=2)
    assert torch.equal(ours, theirs)
