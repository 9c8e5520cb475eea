"""One pass over the keys: exact in any pieces, and it never holds a row.

That ``tiled_attention`` keeps the whole contract is tested where the others
are; see ``implementations.py``. Here is what it alone promises.
"""

import itertools
import math

import pytest
import torch

import attn
from attn.functional import merge_states, online_softmax, tiled_attention
from attn.profiling import LiveMemory
from tests.attn.cases import assert_equal, assert_exact, randn

INF = math.inf


def state(q, k, v):
    return attn.scaled_dot_product_attention(q, k, v, return_lse=True)


# --- merging -----------------------------------------------------------------


def pieces(seed, sizes):
    """A state for each piece of the keys, and the one over all of them."""
    q = randn(2, 3, 4, 8, seed=seed) * 3
    k, v = randn(2, 2, 3, sum(sizes), 8, seed=seed + 1)
    parts = zip(k.split(sizes, 2), v.split(sizes, 2), strict=True)
    return [state(q, *part) for part in parts], state(q, k, v)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sizes", ([1, 1, 1], [5, 1, 2], [4, 0, 3], [0, 0, 2]))
def test_merging_is_exact_in_any_order_and_grouping(sizes, seed):
    parts, whole = pieces(seed, sizes)
    for a, b, c in itertools.permutations(parts):
        assert_exact(merge_states(merge_states(a, b), c), whole)
        assert_exact(merge_states(a, merge_states(b, c)), whole)


def test_an_empty_state_is_neutral_in_a_merge():
    nothing = torch.full((2, 3, 4), -INF, dtype=torch.float64)
    empty = torch.zeros(2, 3, 4, 8).double(), nothing
    out, lse = merge_states(empty, empty)
    assert (out == 0).all() and (lse == -INF).all()
    (first, *_), _ = pieces(0, [3, 1, 1])
    for both in (merge_states(first, empty), merge_states(empty, first)):
        assert_equal(both, first)


def test_states_with_distant_lse_merge_without_overflow():
    """What e to the lse could not hold: one is 2000 above the other."""
    near_by, far = randn(4, 8), randn(4, 8, seed=1)
    low, high = torch.full((4,), -1000.0), torch.full((4,), 1000.0)
    out, lse = merge_states((near_by, low.double()), (far, high.double()))
    assert torch.equal(out, far) and torch.equal(lse, high.double())


def test_a_merge_keeps_the_dtype_and_refuses_other_shapes():
    out, lse = randn(2, 3, 8, dtype=torch.bfloat16), torch.zeros(2, 3)
    assert merge_states((out, lse), (out, lse))[0].dtype == torch.bfloat16
    with pytest.raises(
        ValueError, match="out must have the same shape in first and second"
    ):
        merge_states((out, lse), (out[:1], lse))
    with pytest.raises(ValueError, match="lse must have the same shape"):
        merge_states((out, lse), (out, lse[:1]))
    with pytest.raises(ValueError, match="lse must have the shape of out"):
        merge_states((out, lse[..., None]), (out, lse[..., None]))


# --- one pass ----------------------------------------------------------------


@pytest.mark.parametrize("sizes", ([7], [1] * 7, [3, 4], [2, 5], [6, 1]))
def test_online_softmax_does_not_depend_on_the_blocks(sizes):
    scores, value = randn(2, 4, 3, 7) * 20, randn(2, 2, 7, 5)
    scores[..., 1, :] = -INF  # nobody to attend to
    scores[..., 2, :-1] = -INF  # only the last key
    blocks = zip(scores.split(sizes, -1), value.split(sizes, -2), strict=True)
    out = attn.softmax(scores) @ attn.repeat_kv(value, 2)
    assert_exact(online_softmax(blocks), (out, scores.logsumexp(-1)))


def test_rising_scores_move_the_maximum_in_every_block():
    scores = torch.arange(0, 4000, 500, dtype=torch.float64)[None, None]
    out, lse = online_softmax(
        (scores[..., i : i + 1], torch.tensor([[float(i)]]).double())
        for i in range(8)
    )
    assert out.item() == 7.0 and lse.item() == 3500.0


# --- tiles -------------------------------------------------------------------


@pytest.mark.parametrize("L", (256, 512))
@pytest.mark.parametrize("options", ({}, {"is_causal": True}))
def test_all_scores_are_never_held_forward_or_backward(options, L):
    leaves = [x.requires_grad_() for x in randn(3, 1, 2, L, 8)]
    with LiveMemory() as seen:
        out = tiled_attention(*leaves, block_q=16, block_k=16, **options)
        torch.autograd.grad(out.sum(), leaves)
    assert 0 < seen.peak <= 8 * leaves[0].numel() < L * L


def test_memory_saved_for_backward_is_linear_in_the_length():
    L, kept = 256, []
    leaves = [x.requires_grad_() for x in randn(3, 1, 2, L, 8)]

    def pack(x):
        kept.append(x.numel())
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        tiled_attention(*leaves, block_q=16, block_k=16)
    # query, key, value, out; and lse, one number for a row.
    assert sum(kept) <= 4 * leaves[0].numel() + 2 * L


def test_fully_masked_tiles_are_not_computed():
    def tiles(**options):
        q, k, v = randn(3, 1, 1, 64, 8)
        with Counter() as products:
            tiled_attention(q, k, v, block_q=8, block_k=8, **options)
        return products.count

    every = tiles()
    causal = tiles(is_causal=True)
    band = tiles(window=(4, 0), q_offset=0)
    assert band < causal < every
    assert causal <= 0.6 * every and band <= 0.3 * every


class Counter(torch.utils._python_dispatch.TorchDispatchMode):
    """How many matrix products are done."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket is torch.ops.aten.bmm
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "block_q,block_k", [(1, 1), (1, 64), (64, 1), (5, 7), (1000, 1000)]
)
def test_tiled_attention_does_not_depend_on_the_tile_size(block_q, block_k):
    q, k, v = randn(2, 4, 11, 8), randn(2, 2, 13, 8), randn(2, 2, 13, 6)
    options = {"enable_gqa": True, "is_causal": True, "softcap": 3.0}
    options |= {"sinks": randn(4), "q_offset": 2, "return_lse": True}
    out = tiled_attention(q, k, v, block_q=block_q, block_k=block_k, **options)
    assert_exact(out, attn.scaled_dot_product_attention(q, k, v, **options))


def test_dropout_and_empty_blocks_and_tiles_are_refused():
    with pytest.raises(ValueError, match="blocks must hold at least one"):
        online_softmax([])
    q, k, v = randn(3, 2, 4, 8)
    with pytest.raises(ValueError, match="dropout_p must be 0.0 .*; got 0.1"):
        tiled_attention(q, k, v, dropout_p=0.1)
    for wrong in (0, -4, 2.0, True):
        error = ValueError if type(wrong) is int else TypeError
        with pytest.raises(error, match="block_k must be an int, at least 1"):
            tiled_attention(q, k, v, block_k=wrong)


def test_a_second_derivative_is_refused_and_not_wrong():
    leaves = [x.requires_grad_() for x in randn(3, 2, 4, 8)]
    out = tiled_attention(*leaves)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(out.sum(), leaves, create_graph=True)
