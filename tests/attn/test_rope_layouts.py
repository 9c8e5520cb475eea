"""RoPE's two layouts: weights, activations and tables convert, exactly."""

from __future__ import annotations

import pytest
import torch

import attn
from tests.attn.rope_inputs import randn, tables


def test_convert_pairing_gives_the_order_of_either_layout():
    x = torch.arange(8)
    half = attn.convert_pairing(x, "half")
    assert half.tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    other = attn.convert_pairing(x, "interleaved")
    assert other.tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


@pytest.mark.parametrize("dim,head_dim,rotary", [(0, 8, 8), (1, 4, 2)])
def test_converting_there_and_back_is_exact(dim, head_dim, rotary):
    x = randn(24, 24)
    sizes = {"dim": dim, "head_dim": head_dim, "rotary_dim": rotary}
    for there, back in (("half", "interleaved"), ("interleaved", "half")):
        moved = attn.convert_pairing(x, there, **sizes)
        assert not torch.equal(moved, x) or rotary == 2
        assert torch.equal(attn.convert_pairing(moved, back, **sizes), x)


@pytest.mark.parametrize("rotary", (8, 4))
def test_activations_and_tables_convert_together(rotary):
    x = randn(2, 3, 5, 8)
    cos, sin = tables(torch.arange(5), rotary)
    half = attn.apply_rope(x, cos, sin)

    def convert(y):
        return attn.convert_pairing(y, "interleaved", rotary_dim=rotary)

    other = attn.apply_rope(convert(x), convert(cos), convert(sin), True)
    assert torch.equal(other, convert(half))
    made = tables(torch.arange(5), rotary, interleaved=True)
    assert torch.equal(convert(cos), made[0])
    assert torch.equal(convert(sin), made[1])


def test_weights_convert_as_transformers_converts_metas():
    """``permute`` of convert_llama_weights_to_hf.py, in its own words."""
    H, D, E = 3, 8, 10
    w = randn(H * D, E)
    permuted = w.view(H, D // 2, 2, E).transpose(1, 2).reshape(H * D, E)
    ours = attn.convert_pairing(w, "half", dim=0, head_dim=D)
    assert torch.equal(ours, permuted)


def test_invalid_layout_conversions_are_refused():
    with pytest.raises(
        ValueError, match="axis 0 of x must .*; got 10 elements"
    ):
        attn.convert_pairing(randn(10, 3), "half", dim=0, head_dim=4)
    with pytest.raises(ValueError, match="rotary_dim must be even .*; got 3"):
        attn.convert_pairing(randn(10), "half", rotary_dim=3)
    with pytest.raises(ValueError, match="to must be 'half' .*; got 'neox'"):
        attn.convert_pairing(randn(8), "neox")
