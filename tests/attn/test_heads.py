"""Heads are split, merged, shared and pooled in the order of the field."""

import pytest
import torch

import attn
from attn.profiling import LiveMemory
from tests.attn.cases import assert_exact, randn


def test_heads_are_repeated_next_to_each_other():
    heads = torch.tensor([0.0, 1.0]).reshape(1, 2, 1, 1)
    assert attn.repeat_kv(heads, 3).flatten().tolist() == [0, 0, 0, 1, 1, 1]
    assert attn.repeat_kv(heads, 1) is heads


def test_a_head_is_a_slice_of_the_embedding():
    x = torch.arange(2 * 3 * 8.0).reshape(2, 3, 8)
    heads = attn.split_heads(x, 4)
    assert heads.shape == (2, 4, 3, 2)
    for h in range(4):
        assert torch.equal(heads[:, h], x[..., 2 * h : 2 * h + 2])
    assert heads.data_ptr() == x.data_ptr(), "a view"


@pytest.mark.parametrize("shape", ((5, 12), (2, 5, 12), (2, 3, 5, 12)))
@pytest.mark.parametrize("heads", (1, 3, 12))
def test_merge_heads_inverts_split_heads(shape, heads):
    x = torch.randn(shape)
    split = attn.split_heads(x, heads)
    assert split.shape == (*shape[:-2], heads, 5, 12 // heads)
    assert torch.equal(attn.merge_heads(split), x)
    assert torch.equal(attn.merge_heads(split.contiguous()), x)


def test_pooled_heads_are_means_of_neighbours():
    weight = torch.randn(6 * 4, 5, dtype=torch.float64)
    bias = torch.randn(6 * 4, dtype=torch.float64)
    pooled = attn.pool_heads(weight, 6, 2)
    assert pooled.shape == (8, 5)
    for g in range(2):
        old = [weight[4 * h : 4 * h + 4] for h in range(3 * g, 3 * g + 3)]
        assert_exact(pooled[4 * g : 4 * g + 4], sum(old) / 3)
    assert attn.pool_heads(bias, 6, 3).shape == (12,)
    assert torch.equal(attn.pool_heads(weight, 6, 6), weight)


def test_softmax_equals_pytorchs_and_is_zero_for_a_masked_slice():
    x = randn(3, 4, 5) * 5
    x[0, 1] = -torch.inf
    x[:, 2, 3] = -torch.inf
    for dim in (-1, 0, 1):
        ours, theirs = attn.softmax(x, dim), torch.softmax(x, dim)
        assert_exact(ours, theirs.nan_to_num(0.0))
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        rounded = attn.softmax(x.to(dtype))
        assert rounded.dtype == dtype
        oracle = attn.softmax(x.to(dtype).double())
        assert_exact(rounded, oracle)
    assert attn.softmax(torch.full((3,), 6e4).half()).isfinite().all()


@pytest.mark.parametrize("groups", (1, 2, 4))
def test_grouped_attention_copies_no_key_and_no_value(groups):
    """Nothing as large as all query heads' keys is made."""
    B, H, L, S, D = 1, 8, 2, 64, 16
    q = torch.randn(B, H, L, D)
    k, v = (torch.randn(B, groups, S, D) for _ in range(2))
    with LiveMemory() as memory:
        out = attn.grouped_attention(q, k, v)
    assert memory.peak < B * H * S * D, "the copies would be seen"
    oracle = attn.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), enable_gqa=True
    )
    assert_exact(out, oracle)
