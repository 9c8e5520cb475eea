"""Sinusoids, learned vectors and ALiBi, by other people's code and by hand."""

import math

import pytest
import torch
from transformers.models.bloom.modeling_bloom import _get_alibi_slopes
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

import attn
from tests.attn.refusals import value_error

HEADS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 31, 32, 40, 64, 71, 112)


@pytest.mark.parametrize("dim", (1, 2, 5, 6, 7, 64))
def test_sinusoids_equal_the_formula_of_the_paper(dim):
    table = attn.sinusoidal(9, dim)
    assert table.shape == (9, dim) and table.dtype == torch.float32
    by_hand = torch.tensor(
        [
            [
                (math.cos if c % 2 else math.sin)(
                    p / 10000 ** (2 * (c // 2) / dim)
                )
                for c in range(dim)
            ]
            for p in range(9)
        ],
        dtype=torch.float64,
    )
    assert torch.equal(table, by_hand.float())
    assert attn.sinusoidal(0, dim).shape == (0, dim)


def test_sinusoidal_positions_accept_any_position():
    positions = torch.tensor([[3, 0, 7], [50_000, 1, 2]])
    out = attn.SinusoidalPositions(7)(positions)
    table = attn.sinusoidal(50_001, 7)
    assert torch.equal(out, table[positions])


def test_learned_positions_are_rows_and_get_gradients():
    learned = attn.LearnedPositions(5, 3)
    ids = torch.tensor([[4, 0, 0]])
    out = learned(ids)
    assert torch.equal(out, learned.weight[ids])
    out.sum().backward()
    assert learned.weight.grad[:, 0].tolist() == [2, 0, 0, 0, 1]


def test_position_ids_count_only_real_tokens():
    valid = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]])
    expected = [[0, 0, 0, 1], [0, 1, 2, 2], [0, 0, 0, 0]]
    assert attn.position_ids(valid).tolist() == expected
    assert attn.position_ids(valid.bool()).tolist() == expected


@pytest.mark.parametrize("heads", HEADS)
def test_alibi_slopes_equal_blooms_and_mpts(heads):
    ours = attn.alibi_slopes(heads)
    bloom = _get_alibi_slopes(heads, torch.device("cpu"))
    mpt = build_mpt_alibi_tensor(heads, 2)  # slope * [-1, 0]
    assert ours.shape == (heads,) and ours.dtype == torch.float32
    assert torch.allclose(ours, bloom, rtol=1e-6, atol=0)
    assert torch.allclose(ours, -mpt[:, 0, 0], rtol=1e-6, atol=0)


def test_the_alibi_bias_is_minus_slope_times_distance():
    bias = attn.alibi_bias(4, 3, 5)
    for h, slope in enumerate(attn.alibi_slopes(4)):
        for i in range(3):
            for j in range(5):
                assert bias[h, i, j] == -slope * abs(i - j)


def test_the_alibi_bias_follows_the_given_positions():
    whole = attn.alibi_bias(4, 6)
    last = attn.alibi_bias(4, torch.tensor([5]), 6)
    assert torch.equal(last, whole[:, 5:])
    positions = torch.tensor([[0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5]])
    rows = attn.alibi_bias(4, positions)
    assert rows.shape == (2, 4, 6, 6)
    assert torch.equal(rows[1], whole)
    assert torch.equal(rows[0, :, 2:, 2:], whole[:, :4, :4])


def test_sizes_and_positions_that_are_out_of_range_are_refused():
    with value_error("seq_len must be an int, at least 0; got -1"):
        attn.sinusoidal(-1, 4)
    with value_error("dim must be an int, at least 1; got 0"):
        attn.sinusoidal(3, 0)
    for ids in ([0, 5], [-1, 2]):
        with value_error("must be 0 to 4, one for each .*; got"):
            attn.LearnedPositions(5, 3)(torch.tensor(ids))
    with value_error("num_heads must be an int, at least 1; got 0"):
        attn.alibi_slopes(0)
    with value_error("query_positions must have shape"):
        attn.alibi_bias(2, torch.zeros(1, 2, 3))
