"""RoPE is that of transformers and of ONNX."""

from __future__ import annotations

import pytest
import torch
from transformers.models.cohere import modeling_cohere as cohere
from transformers.models.gpt_neox import modeling_gpt_neox as neox
from transformers.models.llama import LlamaConfig
from transformers.models.llama import modeling_llama as llama

import attn
from tests.attn.cases import assert_equal, assert_exact
from tests.attn.onnx_cases import cases_of, tensor, unpacked
from tests.attn.rope_inputs import randn, tables

DTYPES = (torch.float64, torch.float32, torch.bfloat16)
NUMBER_OF_ONNX_CASES = 8


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


ONNX = cases_of("RotaryEmbedding")


def rotate(inputs, attributes):
    """ONNX's operator by ``attn``'s functions: it renames and reshapes."""
    x, cos, sin = (
        inputs[name] for name in ("input", "cos_cache", "sin_cache")
    )
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


def test_all_rotary_embedding_cases_of_onnx_are_collected():
    assert len({case.name for case in ONNX}) == NUMBER_OF_ONNX_CASES


@pytest.mark.parametrize("case", ONNX, ids=lambda case: case.name[5:])
def test_apply_rope_equals_the_cases_of_onnx(case):
    arrays, attributes, expected = unpacked(case)
    inputs = {name: tensor(x) for name, x in arrays.items()}
    exact = {
        name: x.double() if x.is_floating_point() else x
        for name, x in inputs.items()
    }
    rival = tensor(expected["output"])
    assert_exact(rotate(inputs, attributes), rotate(exact, attributes), rival)
    assert_exact(rival, rotate(exact, attributes))
