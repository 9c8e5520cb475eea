"""The module's positions, weights and dropout."""

from __future__ import annotations

import copy

import torch

import attn
from attn.nn import MultiHeadAttention
from tests.attn.cases import assert_exact, randn
from tests.attn.mha import B, E, H, L, S, make


def test_norope_equals_no_rope():
    without = make(MultiHeadAttention, E, H, rope=attn.NoRope(4))
    plain = make(MultiHeadAttention, E, H)
    x, positions = randn(B, L, E), torch.randint(0, 99, (B, L))
    assert_exact(without(x), plain(x))
    assert_exact(without(x, positions=positions), plain(x))
    tables = without.rope(positions)
    assert [t.shape for t in tables] == [(B, L, 4)] * 2
    assert_exact(without(x, position_embeddings=tables), plain(x))


def test_given_rope_tables_equal_those_made_from_positions():
    module = make(
        MultiHeadAttention, E, H, rope=attn.Rope(4, interleaved=True)
    )
    x, positions = randn(B, L, E), torch.randint(0, 99, (B, L))
    out = module(x, positions=positions)
    assert_exact(module(x, position_embeddings=module.rope(positions)), out)
    assert (out - module(x)).abs().max() > 1e-3


def test_q_offset_places_the_last_tokens_for_rope_alibi_and_window():
    """Decoding: q_offset moves the mask, RoPE and ALiBi alike."""
    for options in ({"rope": attn.Rope(4)}, {"alibi": True}):
        module = make(
            MultiHeadAttention,
            E,
            H,
            is_causal=True,
            window=(3, 0),
            **options,
        )
        x = randn(B, L, E)
        last = module(x[:, 3:], x, x, q_offset=3)
        assert_exact(last, module(x)[:, 3:])
        rows = torch.full((B,), 3)
        assert_exact(module(x[:, 3:], x, x, q_offset=rows), last)


def test_only_distances_between_query_and_key_positions_matter():
    module = make(MultiHeadAttention, E, H, rope=attn.Rope(4))
    x, y = randn(B, L, E), randn(B, S, E, seed=1)
    near = module(
        x,
        y,
        positions=torch.arange(L) + 40,
        key_positions=torch.arange(S) + 40,
    )
    assert (near - module(x, y)).abs().max() < 1e-4  # distances only


def test_dropout_is_off_in_eval_and_returned_weights_are_before_it():
    module = make(MultiHeadAttention, E, H, dropout=0.5)
    x = randn(B, L, E)
    calm = module(x)
    assert torch.equal(calm, module(x))
    module.train()
    torch.manual_seed(0)
    noisy, weights = module(x, need_weights=True, average_attn_weights=False)
    assert (noisy - calm).abs().max() > 1e-2
    assert_exact(weights.sum(-1), torch.ones(B, H, L).double())
    torch.manual_seed(0)
    assert torch.equal(module(x), noisy)
    module.dropout = 0.0
    assert torch.equal(module(x), calm)


def test_a_row_without_keys_is_the_bias_and_has_no_gradient():
    module = make(MultiHeadAttention, E, H)
    x = randn(B, L, E).requires_grad_()
    pad = torch.zeros(B, L, dtype=torch.bool)
    pad[1] = True
    out, weights = module(x, key_padding_mask=pad, need_weights=True)
    assert_exact(out[1], module.out_proj.bias.expand(L, E))
    assert not weights[1].any()
    out[1].sum().backward()
    assert not x.grad.any()


def test_the_module_changes_no_input_and_no_random_state():
    module = make(MultiHeadAttention, E, H, dropout=0.3)
    x, mask = randn(B, L, E), torch.rand(L, L) < 0.5
    pad = torch.rand(B, L) < 0.3
    before = copy.deepcopy((x, mask, pad))
    state = torch.get_rng_state()
    module(x, attn_mask=mask, key_padding_mask=pad, need_weights=True)
    assert all(map(torch.equal, before, (x, mask, pad)))
    assert torch.equal(state, torch.get_rng_state())
