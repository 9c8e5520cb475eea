"""RoPE: equal to transformers and ONNX, relative, exact both ways."""

from __future__ import annotations

import copy
import os

import numpy as np
import onnx
import pytest
import torch

import attn
from tests.attn.cases import assert_exact
from tests.attn.onnx_cases import cases_of

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
from transformers.models.cohere import modeling_cohere as cohere  # noqa: E402
from transformers.models.gpt_neox import (  # noqa: E402
    modeling_gpt_neox as neox,
)
from transformers.models.llama import (  # noqa: E402
    LlamaConfig,
    LlamaForCausalLM,
)
from transformers.models.llama import (  # noqa: E402
    modeling_llama as llama,
)

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
NUMBER_OF_ONNX_CASES = 8


def randn(*shape, dtype=torch.float32, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=g, dtype=torch.float64).to(dtype)


def tables(positions, dim, interleaved=False, base=10000.0):
    frequencies = attn.rope_frequencies(dim, base)
    return attn.rope_tables(positions, frequencies, interleaved=interleaved)


def by_complex_numbers(x, positions, interleaved, base=10000.0):
    """A pair is a complex number, and rotating it is a product (float64)."""
    x = x.double()
    half = x.shape[-1] // 2
    if interleaved:
        pairs = torch.view_as_complex(x.unflatten(-1, (half, 2)).contiguous())
    else:
        pairs = torch.complex(x[..., :half], x[..., half:])
    rate = attn.rope_frequencies(x.shape[-1], base).inv_freq
    angle = (positions[..., None].float() * rate).double()
    rotated = pairs * torch.polar(torch.ones_like(angle), angle)
    if interleaved:
        return torch.view_as_real(rotated).flatten(-2)
    return torch.cat([rotated.real, rotated.imag], -1)


# --- by others ---------------------------------------------------------------


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
def test_tables_are_those_of_transformers(positions, base):
    config = LlamaConfig(
        head_dim=16,
        rope_parameters={"rope_type": "default", "rope_theta": base},
    )
    theirs = llama.LlamaRotaryEmbedding(config)(torch.ones(1), positions)
    ours = tables(positions, 16, base=base)
    for mine, table in zip(ours, theirs, strict=True):
        assert torch.equal(mine, table)


def test_yarn_sharpens_both_tables():
    parameters = {"factor": 8.0, "original_max_position_embeddings": 64}
    config = LlamaConfig(
        head_dim=16,
        max_position_embeddings=512,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            **parameters,
        },
    )
    positions = torch.arange(500)[None]
    theirs = llama.LlamaRotaryEmbedding(config)(torch.ones(1), positions)
    ours = attn.Rope(16, type="yarn", **parameters)(positions)
    for mine, table in zip(ours, theirs, strict=True):
        assert torch.equal(mine, table)


@pytest.mark.parametrize("dtype", DTYPES[:3])
@pytest.mark.parametrize("batched", (False, True))
def test_rotating_halves_is_llamas(dtype, batched):
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


def test_rotating_neighbours_is_coheres():
    x = randn(2, 4, 9, 16)
    cos, sin = tables(torch.arange(9), 16, interleaved=True)
    theirs, _ = cohere.apply_rotary_pos_emb(x, x, cos[None], sin[None])
    assert torch.equal(attn.apply_rope(x, cos, sin, interleaved=True), theirs)


@pytest.mark.parametrize("rotary", (2, 8, 16))
def test_partial_rotation_is_gpt_neoxs(rotary):
    x = randn(2, 4, 9, 16)
    cos, sin = tables(torch.arange(9), rotary)
    theirs, _ = neox.apply_rotary_pos_emb(x, x, cos[None], sin[None])
    ours = attn.apply_rope(x, cos, sin)
    assert torch.equal(ours, theirs)
    assert torch.equal(ours[..., rotary:], x[..., rotary:])


ONNX = cases_of("RotaryEmbedding")


def rotate(inputs, attributes):
    """ONNX's operator by ``attn``'s functions: it renames and reshapes."""
    x, cos, sin = (inputs[name] for name in ("input", "cos", "sin"))
    if "position_ids" in inputs:
        cos, sin = (table[inputs["position_ids"]] for table in (cos, sin))
    interleaved = bool(attributes.get("interleaved", 0))
    cos, sin = (  # each angle once there, once for each element here
        table.repeat_interleave(2, -1)
        if interleaved
        else torch.cat([table, table], -1)
        for table in (cos, sin)
    )
    packed = x.dim() == 3
    x = attn.split_heads(x, attributes["num_heads"]) if packed else x
    out = attn.apply_rope(x, cos, sin, interleaved)
    return attn.merge_heads(out) if packed else out


def test_all_of_onnx_rotary_embedding_was_collected():
    assert len({case.name for case in ONNX}) == NUMBER_OF_ONNX_CASES


@pytest.mark.parametrize("case", ONNX, ids=lambda case: case.name[5:])
def test_onnx(case):
    (node,) = case.model.graph.node
    ((arrays, (expected,)),) = case.data_sets
    names = ("input", "cos", "sin", "position_ids")
    inputs = {
        name: torch.from_numpy(np.array(x))
        for name, x in zip(names, arrays, strict=False)
    }
    attributes = {
        a.name: onnx.helper.get_attribute_value(a) for a in node.attribute
    }
    exact = {
        name: x.double() if x.is_floating_point() else x
        for name, x in inputs.items()
    }
    rival = torch.from_numpy(expected)
    assert_exact(rotate(inputs, attributes), rotate(exact, attributes), rival)
    assert_exact(rival, rotate(exact, attributes))


# --- by itself ---------------------------------------------------------------


@pytest.mark.parametrize("interleaved", (False, True))
@pytest.mark.parametrize("dim", (2, 6, 16))
def test_rotating_is_a_product_of_complex_numbers(dim, interleaved):
    x = randn(2, 3, 11, dim, dtype=torch.float64)
    positions = torch.arange(11) * 7 + 5
    cos, sin = tables(positions, dim, interleaved)
    ours = attn.apply_rope(x, cos, sin, interleaved)
    oracle = by_complex_numbers(x, positions, interleaved)
    # The tables are float32, the product float64.
    assert (ours - oracle).abs().max() < 1e-6


@pytest.mark.parametrize("interleaved", (False, True))
def test_scores_depend_on_the_distance_alone(interleaved):
    q, k = randn(2, 1, 8, dtype=torch.float64)

    def score(m, n):
        rotated = [
            attn.apply_rope(
                x,
                *tables(torch.tensor([at]), 8, interleaved),
                interleaved=interleaved,
            )
            for x, at in ((q, m), (k, n))
        ]
        return (rotated[0] * rotated[1]).sum()

    near = torch.stack([score(m, m - 3) for m in (3, 10, 100, 1000)])
    assert (near - near[0]).abs().max() < 1e-3  # angles of float32
    assert (score(10, 7) - score(10, 6)).abs() > 1e-2
    assert (score(10, 7) - score(7, 10)).abs() > 1e-2  # and its sign


def test_position_0_and_lengths_stay():
    x = randn(2, 5, 16, dtype=torch.float64)
    cos, sin = tables(torch.arange(5), 16)
    out = attn.apply_rope(x, cos, sin)
    assert torch.equal(out[:, 0], x[:, 0])
    assert torch.allclose(out.norm(dim=-1), x.norm(dim=-1))


def test_one_token_at_a_time_is_the_same_as_all():
    x = randn(2, 4, 9, 16)
    whole = attn.apply_rope(x, *tables(torch.arange(9), 16))
    for i in range(9):
        one = attn.apply_rope(
            x[:, :, i : i + 1], *tables(torch.tensor([i]), 16)
        )
        assert torch.equal(one, whole[:, :, i : i + 1])


def test_tables_are_float32_and_bfloat16_cannot_count():
    positions = torch.tensor([256, 257])
    cos, sin = tables(positions, 16)
    assert cos.dtype == sin.dtype == torch.float32
    assert not torch.equal(sin[0], sin[1])
    with pytest.raises(
        TypeError, match="got torch.bfloat16, which cannot count"
    ):
        tables(positions.bfloat16(), 16)
    frequencies = attn.rope_frequencies(16).inv_freq.bfloat16()
    assert attn.rope_tables(positions, frequencies)[0].dtype == torch.float32


def test_plain_numbers_are_frequencies_too():
    frequencies = attn.rope_frequencies(8)
    a = attn.rope_tables(torch.arange(3), frequencies.inv_freq)
    b = attn.rope_tables(torch.arange(3), frequencies)
    assert torch.equal(a[0], b[0])
    twice = attn.rope_tables(torch.arange(3), frequencies, 2.0)
    assert torch.equal(twice[1], 2 * b[1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_dtype_of_x_comes_back_and_nothing_is_changed(dtype):
    x = randn(2, 3, 5, 8, dtype=dtype)
    cos, sin = tables(torch.arange(5), 8)
    before = copy.deepcopy((x, cos, sin))
    state = torch.get_rng_state()
    out = attn.apply_rope(x, cos, sin)
    assert out.dtype == dtype and out.shape == x.shape
    assert all(map(torch.equal, before, (x, cos, sin)))
    assert torch.equal(state, torch.get_rng_state())


def test_half_precision_is_rounded_once():
    """With transformers' tables too, which are in the model's dtype."""
    x = randn(2, 3, 50, 8, dtype=torch.bfloat16)
    cos, sin = (t.bfloat16() for t in tables(torch.arange(50), 8))
    exact = attn.apply_rope(x.float(), cos.float(), sin.float())
    assert torch.equal(attn.apply_rope(x, cos, sin), exact.bfloat16())


def test_gradients_are_right():
    x = randn(2, 3, 5, 8, dtype=torch.float64).requires_grad_()
    for interleaved in (False, True):
        cos, sin = tables(torch.arange(5), 6, interleaved)
        assert torch.autograd.gradcheck(
            lambda x, c=cos, s=sin, i=interleaved: attn.apply_rope(x, c, s, i),
            x,
        )


@pytest.mark.parametrize(
    "shape", ((5, 8), (3, 5, 8), (2, 3, 5, 8), (2, 2, 3, 5, 8), (0, 3, 5, 8))
)
def test_any_number_of_axes(shape):
    x = randn(*shape)
    cos, sin = tables(torch.arange(5), 8)
    out = attn.apply_rope(x, cos, sin)
    assert out.shape == x.shape
    flat = x.reshape(-1, 5, 8)
    for a, b in zip(flat, out.reshape(-1, 5, 8), strict=True):
        assert torch.equal(attn.apply_rope(a, cos, sin), b)


def test_rows_of_a_batch_have_their_own_positions():
    B = 3
    x = randn(B, B, 5, 8)  # as many heads as rows
    positions = torch.randint(0, 99, (B, 5))
    cos, sin = tables(positions, 8)
    out = attn.apply_rope(x, cos, sin)
    for b in range(B):
        row = attn.apply_rope(x[b], cos[b], sin[b])
        assert torch.equal(out[b], row)


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
def test_tables_that_do_not_fit_are_refused(x, table, says):
    with pytest.raises(ValueError, match=says):
        attn.apply_rope(randn(*x), randn(*table), randn(*table))


@pytest.mark.parametrize("interleaved", (False, True))
def test_tables_of_the_other_layout_are_refused(interleaved):
    x = randn(2, 3, 5, 8)
    cos, sin = tables(torch.arange(5), 8, not interleaved)
    with pytest.raises(
        ValueError, match=f"got .* of interleaved={not interleaved}"
    ):
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


def test_tables_of_two_widths_are_refused():
    with pytest.raises(ValueError, match="sin must have .* cos, 8; got 6"):
        attn.apply_rope(randn(5, 8), randn(5, 8), randn(5, 6))


# --- both layouts ------------------------------------------------------------


def test_the_order_of_the_two_layouts():
    x = torch.arange(8)
    half = attn.convert_pairing(x, "half")
    assert half.tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    other = attn.convert_pairing(x, "interleaved")
    assert other.tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


@pytest.mark.parametrize("dim,head_dim,rotary", [(0, 8, 8), (1, 4, 2)])
def test_there_and_back_is_exact(dim, head_dim, rotary):
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


def scores(x, w, b, heads, interleaved):
    """Scores of one layer, its query and key rotated."""
    dim = len(b[0]) // heads
    table = tables(torch.arange(x.shape[1]), dim, interleaved)
    q, k = (
        attn.apply_rope(
            attn.split_heads(x @ m.T + c, heads), *table, interleaved
        )
        for m, c in zip(w, b, strict=True)
    )
    return q @ k.mT


def test_converted_projections_give_the_same_scores():
    E, H, D, L = 10, 3, 8, 5
    x = randn(2, L, E, dtype=torch.float64)
    w, b = randn(2, H * D, E).double(), randn(2, H * D, seed=1).double()

    def convert(both):
        return [
            attn.convert_pairing(m, "interleaved", dim=0, head_dim=D)
            for m in both
        ]

    half = scores(x, w, b, H, False)
    assert_exact(scores(x, convert(w), convert(b), H, True), half)
    # Without the conversion they are not the same.
    assert (scores(x, w, b, H, True) - half).abs().max() > 0.1


def test_weights_convert_as_transformers_converts_metas():
    """``permute`` of convert_llama_weights_to_hf.py, in its own words."""
    H, D, E = 3, 8, 10
    w = randn(H * D, E)
    permuted = w.view(H, D // 2, 2, E).transpose(1, 2).reshape(H * D, E)
    ours = attn.convert_pairing(w, "half", dim=0, head_dim=D)
    assert torch.equal(ours, permuted)


def test_a_conversion_that_makes_no_sense_is_refused():
    with pytest.raises(
        ValueError, match="axis 0 of x must .*; got 10 elements"
    ):
        attn.convert_pairing(randn(10, 3), "half", dim=0, head_dim=4)
    with pytest.raises(ValueError, match="rotary_dim must be even .*; got 3"):
        attn.convert_pairing(randn(10), "half", rotary_dim=3)
    with pytest.raises(ValueError, match="to must be 'half' .*; got 'neox'"):
        attn.convert_pairing(randn(8), "neox")


# --- no positions ------------------------------------------------------------


def test_no_rope_rotates_nothing():
    x = randn(2, 3, 5, 8, dtype=torch.bfloat16)
    cos, sin = attn.NoRope(8)(x, torch.arange(5).expand(2, -1))
    assert cos.shape == sin.shape == (2, 5, 8)
    assert cos.dtype == torch.bfloat16
    assert torch.equal(attn.apply_rope(x, cos, sin), x)


def test_a_llama_with_no_rope_and_no_mask_forgets_the_order():
    config = LlamaConfig(
        vocab_size=37,
        hidden_size=24,
        intermediate_size=20,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        is_causal=False,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).eval()
    for x in model.parameters():
        torch.nn.init.normal_(x, std=0.3)
    ids, order = torch.randint(37, (2, 7)), torch.randperm(7)

    def run(ids):
        with torch.no_grad():
            return model(ids, use_cache=False).logits

    assert (run(ids[:, order]) - run(ids)[:, order]).abs().max() > 1e-3
    model.model.rotary_emb = attn.NoRope(6)
    assert_exact(
        run(ids[:, order]), run(ids)[:, order].double(), run(ids)[:, order]
    )
