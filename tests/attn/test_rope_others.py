"""RoPE is that of transformers; test_onnx has ONNX's cases."""

import pytest
import torch
from transformers.models.cohere import modeling_cohere as cohere
from transformers.models.gpt_neox import modeling_gpt_neox as neox
from transformers.models.llama import LlamaConfig
from transformers.models.llama import modeling_llama as llama

import attn
from tests.attn.cases import assert_equal, assert_exact
from tests.attn.cases import randn32 as randn
from tests.attn.test_rope import tables

DTYPES = (torch.float64, torch.float32, torch.bfloat16)


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
