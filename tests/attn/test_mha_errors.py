"""What the module refuses, and in which words."""

from functools import partial

import pytest
import torch

import attn
from attn.nn import MultiHeadAttention, RMSNorm
from tests.attn.refusals import refused

MADE_WRONG = {
    "rope must have the queries' head_dim, 4; got 6": {"rope": attn.Rope(6)},
    "alibi must be False with rope": {"rope": attn.NoRope(4), "alibi": True},
    "impl must be 'auto' or .*; got 'magic'": {"impl": "magic"},
    "embed_dim must be a multiple of .*; got 12 and 5": {"num_heads": 5},
    "num_heads must be a multiple of .*; got 3 and 2": {"num_kv_heads": 2},
    "num_heads must be an int, at least 1; got 0": {"num_heads": 0},
    "num_kv_heads must be an int, at least 1; got 0": {"num_kv_heads": 0},
    "dropout must be 0 to 1; got 1.5": {"dropout": 1.5},
    "kdim and vdim must be embed_dim .*, 12; got 8 and 12": {
        "packed": True,
        "kdim": 8,
    },
}
SIZES = {"embed_dim": 12, "num_heads": 3}
test_a_module_with_invalid_options_is_refused = refused(
    MADE_WRONG, ValueError, partial(MultiHeadAttention, **SIZES)
)


def zeros(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype)


PADDING = r"key_padding_mask must .*\(B, S\) = \(2, 5\); .*: True is padding"
TWO_AXES = "attn_mask must have two axes .*; got"
ROWS = "key must have the batch size of query, 2; got"
CALLED_WRONG = [
    ("query must have .* size 12.*; got 11", {"query": zeros(2, 5, 11)}),
    ("query must have shape", {"query": zeros(5)}),
    ("query must have shape", {"query": zeros(1, 2, 5, 12)}),
    (f"{ROWS} 3", {"key": zeros(3, 5, 12)}),
    (f"{ROWS} 1", {"key": zeros(1, 5, 12)}),
    ("key must have shape", {"key": zeros(5, 12)}),
    ("key must be given with value", {"value": zeros(2, 5, 12)}),
    (
        "value must have one position for each key, 5; got 6",
        {"key": zeros(2, 5, 12), "value": zeros(2, 6, 12)},
    ),
    (PADDING, {"key_padding_mask": zeros(2, 4).bool()}),
    (PADDING, {"key_padding_mask": zeros(1, 5).bool()}),
    (PADDING, {"key_padding_mask": zeros(5).bool()}),
    (TWO_AXES, {"attn_mask": zeros(2, 4).bool()}),
    (TWO_AXES, {"attn_mask": zeros(3, 5, 5).bool()}),
    (
        TWO_AXES,
        {
            "attn_mask": zeros(2, 5).bool(),
            "key_padding_mask": zeros(2, 5).bool(),
        },
    ),
    ("^positions must have shape", {"positions": zeros(4).long()}),
    ("^positions must have shape", {"positions": zeros(3, 5).long()}),
    ("key_positions must have shape", {"key_positions": zeros(4).long()}),
]


MODULE = MultiHeadAttention(12, 2, rope=attn.Rope(6))
test_a_call_with_invalid_shapes_is_refused = refused(
    CALLED_WRONG, ValueError, partial(MODULE, query=zeros(2, 5, 12))
)


@pytest.mark.parametrize("alibi", (False, True))
@pytest.mark.parametrize("padded", (False, True))
def test_an_ambiguous_mask_of_three_axes_is_refused(alibi, padded):
    module = MultiHeadAttention(12, 3, alibi=alibi)
    pad = zeros(3, 5).bool() if padded else None
    mask = zeros(3, 5, 5).bool()
    with pytest.raises(
        ValueError, match=r"ambiguous .* 3 heads: pass \(B, 1, L, S\)"
    ):
        module(zeros(3, 5, 12), attn_mask=mask, key_padding_mask=pad)


@pytest.mark.parametrize("alibi", (False, True))
def test_a_window_in_cross_attention_needs_q_offset(alibi):
    module = MultiHeadAttention(12, 3, alibi=alibi)
    x, y = zeros(2, 3, 12), zeros(2, 5, 12)
    with pytest.raises(ValueError, match="q_offset=2"):
        module(x, y, attn_mask=attn.sliding_window(2))
    out = module(x, y, attn_mask=attn.sliding_window(2), q_offset=2)
    assert out.shape == x.shape


def test_an_integer_key_padding_mask_is_refused():
    module = MultiHeadAttention(12, 3)
    message = "key_padding_mask must be bool .*; got torch.int64"
    with pytest.raises(TypeError, match=message):
        module(zeros(2, 5, 12), key_padding_mask=zeros(2, 5).long())


def test_head_norms_have_the_dtype_of_the_module():
    module = MultiHeadAttention(
        12, 3, qk_norm=True, dtype=torch.bfloat16, device="cpu"
    )
    assert isinstance(module.q_norm, RMSNorm)
    assert {x.dtype for x in module.parameters()} == {torch.bfloat16}
    assert module(zeros(1, 2, 12, dtype=torch.bfloat16)).shape == (1, 2, 12)
