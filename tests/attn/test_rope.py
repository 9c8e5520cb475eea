"""RoPE is that of transformers, of any shape, rounded once; its two layouts.

test_onnx has ONNX's cases.
"""

import pytest
import torch
from transformers.models.cohere import modeling_cohere as cohere
from transformers.models.gpt_neox import modeling_gpt_neox as neox
from transformers.models.llama import LlamaConfig
from transformers.models.llama import modeling_llama as llama

import attn
from tests.attn.cases import assert_equal, assert_exact
from tests.attn.cases import randn32 as randn
from tests.attn.refusals import type_error, value_error

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def tables(positions, dim, interleaved=False, base=10000.0):
    frequencies = attn.rope_frequencies(dim, base)
    return attn.rope_tables(positions, frequencies, interleaved=interleaved)


def test_rope_tables_are_float32_and_bfloat16_positions_are_refused():
    positions = torch.tensor([256, 257])
    cos, sin = tables(positions, 16)
    assert cos.dtype == sin.dtype == torch.float32
    assert not torch.equal(sin[0], sin[1])
    with type_error("got torch.bfloat16, which cannot count"):
        tables(positions.bfloat16(), 16)
    frequencies = attn.rope_frequencies(16).inv_freq.bfloat16()
    assert attn.rope_tables(positions, frequencies)[0].dtype == torch.float32


def test_rope_tables_accept_a_plain_tensor_of_frequencies():
    frequencies = attn.rope_frequencies(8)
    a = attn.rope_tables(torch.arange(3), frequencies.inv_freq)
    b = attn.rope_tables(torch.arange(3), frequencies)
    assert torch.equal(a[0], b[0])
    twice = attn.rope_tables(torch.arange(3), frequencies, 2.0)
    assert torch.equal(twice[1], 2 * b[1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_apply_rope_keeps_the_dtype(dtype):
    x = randn(2, 3, 5, 8, dtype=dtype)
    out = attn.apply_rope(x, *tables(torch.arange(5), 8))
    assert out.dtype == dtype and out.shape == x.shape


def test_rope_rounds_half_precision_once():
    """With transformers' tables too, which are in the model's dtype."""
    x = randn(2, 3, 50, 8, dtype=torch.bfloat16)
    cos, sin = (t.bfloat16() for t in tables(torch.arange(50), 8))
    exact = attn.apply_rope(x.float(), cos.float(), sin.float())
    assert torch.equal(attn.apply_rope(x, cos, sin), exact.bfloat16())


@pytest.mark.parametrize(
    "shape", ((5, 8), (3, 5, 8), (2, 3, 5, 8), (2, 2, 3, 5, 8), (0, 3, 5, 8))
)
def test_apply_rope_accepts_any_number_of_axes(shape):
    x = randn(*shape)
    cos, sin = tables(torch.arange(5), 8)
    out = attn.apply_rope(x, cos, sin)
    assert out.shape == x.shape
    flat = x.reshape(-1, 5, 8)
    for a, b in zip(flat, out.reshape(-1, 5, 8), strict=True):
        assert torch.equal(attn.apply_rope(a, cos, sin), b)


WRONG = [
    ((2, 3, 5, 8), (4, 8), "cos must have one row .* of x, 5; got 4"),
    ((2, 3, 5, 8), (1, 8), "cos must have one row .* of x, 5; got 1"),
    ((2, 3, 5, 8), (5, 10), "cos must have .* head_dim of x, 8; got 10"),
    ((2, 3, 5, 8), (5, 3), "cos must have an even width.*; got 3"),
    ((2, 3, 5, 8), (3, 5, 8), r"cos must .* to x, .*; got \(3, 1, 5, 8\)"),
    ((2, 2, 3, 5, 8), (2, 5, 8), "cos must be .L, R."),
    ((5, 8), (2, 5, 8), "cos must be .L, R."),
    ((8,), (5, 8), "cos must have shape .* and x"),
]


@pytest.mark.parametrize("x,table,says", WRONG)
def test_rope_tables_of_a_wrong_shape_are_refused(x, table, says):
    with pytest.raises(ValueError, match=says):
        attn.apply_rope(randn(*x), randn(*table), randn(*table))


@pytest.mark.parametrize("interleaved", (False, True))
def test_rope_tables_of_the_other_layout_are_refused(interleaved):
    x = randn(2, 3, 5, 8)
    cos, sin = tables(torch.arange(5), 8, not interleaved)
    with value_error(f"got .* of interleaved={not interleaved}"):
        attn.apply_rope(x, cos, sin, interleaved)
    # At position 0, for one pair, or without positions, both are the same.
    for table in (
        tables(torch.zeros(5), 8, not interleaved),
        tables(torch.arange(5), 2, not interleaved),
        attn.NoRope(8)(x, torch.arange(5)),
    ):
        attn.apply_rope(x, *table, interleaved)
    empty = randn(2, 3, 0, 8)
    cos, sin = tables(torch.arange(0), 8, not interleaved)
    assert attn.apply_rope(empty, cos, sin, interleaved).shape == empty.shape


def test_cos_and_sin_of_different_widths_are_refused():
    with value_error("sin must have .* cos, 8; got 6"):
        attn.apply_rope(randn(5, 8), randn(5, 8), randn(5, 6))


def test_no_rope_rotates_nothing():
    x = randn(2, 3, 5, 8, dtype=torch.bfloat16)
    cos, sin = attn.NoRope(8)(x, torch.arange(5).expand(2, -1))
    assert cos.shape == sin.shape == (2, 5, 8)
    assert cos.dtype == torch.bfloat16
    assert torch.equal(attn.apply_rope(x, cos, sin), x)


# --- layouts: weights, activations and tables convert, exactly ---------------


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
    with value_error("axis 0 of x must .*; got 10 elements"):
        attn.convert_pairing(randn(10, 3), "half", dim=0, head_dim=4)
    with value_error("rotary_dim must be even .*; got 3"):
        attn.convert_pairing(randn(10), "half", rotary_dim=3)
    with value_error("to must be 'half' .*; got 'neox'"):
        attn.convert_pairing(randn(8), "neox")


# --- as transformers rotates -------------------------------------------------


@pytest.mark.parametrize(
    "positions",
    (
        torch.arange(9)[None],
        torch.arange(9)[None] + 4090,
        torch.tensor([[0, 1, 2, 0, 1, 0, 7, 7, 100_000]]),
        torch.tensor([range(9), range(3, 12)]),
    ),
    ids=("plain", "offset", "arbitrary", "batched"),
)
@pytest.mark.parametrize("base", (10000.0, 500000.0))
def test_rope_tables_equal_those_of_transformers(positions, base):
    config = LlamaConfig(
        head_dim=16,
        rope_parameters={"rope_type": "default", "rope_theta": base},
    )
    theirs = llama.LlamaRotaryEmbedding(config)(torch.ones(1), positions)
    assert_equal(tables(positions, 16, base=base), theirs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batched", (False, True))
def test_rotating_halves_equals_llamas(dtype, batched):
    q, k = randn(2, 4, 9, 16, dtype=dtype), randn(2, 2, 9, 16, dtype=dtype)
    positions = torch.arange(9).expand(2, -1) + torch.tensor([[0], [77]])
    positions = positions if batched else positions[:1]
    cos, sin = tables(positions if batched else positions[0], 16)
    # transformers gets its tables in the dtype of the model.
    full = [x.to(dtype).expand(2, -1, -1) for x in (cos, sin)]
    theirs = llama.apply_rotary_pos_emb(q, k, *full)
    for x, rival in zip((q, k), theirs, strict=True):
        ours = attn.apply_rope(x, cos, sin)
        assert ours.dtype == dtype
        exact = attn.apply_rope(x.double(), cos, sin)
        assert_exact(ours, exact, rival)
        torch.testing.assert_close(ours, rival, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dim", (2, 6, 16))
def test_rotating_neighbours_equals_coheres(dim):
    x = randn(2, 4, 9, dim)
    cos, sin = tables(torch.arange(9) * 7 + 5, dim, interleaved=True)
    theirs, _ = cohere.apply_rotary_pos_emb(x, x, cos[None], sin[None])
    assert torch.equal(attn.apply_rope(x, cos, sin, interleaved=True), theirs)


@pytest.mark.parametrize("rotary", (2, 6, 8, 16))
def test_partial_rotation_equals_gpt_neoxs(rotary):
    x = randn(2, 4, 9, 16)
    cos, sin = tables(torch.arange(9) * 7 + 5, rotary)
    theirs, _ = neox.apply_rotary_pos_emb(x, x, cos[None], sin[None])
    ours = attn.apply_rope(x, cos, sin)
    assert torch.equal(ours, theirs)
    assert torch.equal(ours[..., rotary:], x[..., rotary:])
