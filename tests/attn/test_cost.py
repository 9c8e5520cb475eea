"""Counted costs are what counting by hand, or by torch, gives."""

from __future__ import annotations

import pytest
import torch
from transformers import GPT2Config, MistralConfig

from attn import cost
from tests.attn.refusals import refused

SIZES = {"batch": 2, "num_heads": 6, "num_kv_heads": 2, "head_dim": 8}


def test_cache_bytes_equal_published_figures():
    """Two published figures and one from the project's sources."""
    # 2 bytes * 2 * 32 layers * 4096 wide = half a MiB a token.
    assert cost.kv_cache_bytes(1, 1, 32, 32, 128) == 2**19
    quarter = cost.kv_cache_bytes(1, 1, 32, 32, 64, torch.float8_e4m3fn)
    assert quarter == 2**17
    llama = cost.PUBLISHED["Llama-2-7B"]
    assert llama.cache_bytes(1, 4096) == 2 * 2**30
    assert cost.kv_cache_bytes(1, 4096, 1, 8, 128) // 2 == 8_388_608


@pytest.mark.parametrize("q_len,kv_len", ((5, 5), (1, 9), (3, 9), (9, 3)))
@pytest.mark.parametrize("is_causal", (False, True))
def test_flops_of_attention_equal_the_counted_pairs(q_len, kv_len, is_causal):
    pairs = sum(
        not is_causal or j <= i + kv_len - q_len
        for i in range(q_len)
        for j in range(kv_len)
    )
    got = cost.attention_cost(
        q_len=q_len, kv_len=kv_len, is_causal=is_causal, **SIZES
    )
    assert got.flops == 2 * 6 * pairs * (2 * 8 + 2 * 8)


def test_decode_is_memory_bound_and_prefill_is_compute_bound():
    shape = (32, 8, 128)
    prompt = cost.attention_cost(1, 4096, 4096, *shape, is_causal=True)
    step = cost.attention_cost(1, 1, 4096, *shape)
    assert prompt.intensity > 1000
    # Each byte of the cache serves the G heads of a group: 2 * G / 2.
    assert step.intensity == pytest.approx(4, rel=0.01)
    alone = cost.attention_cost(1, 1, 4096, 32, 32, 128)
    assert alone.intensity == pytest.approx(1, rel=0.01)
    assert cost.roofline(step.intensity, 1e15, 1e12) == pytest.approx(
        step.intensity * 1e12
    )
    assert cost.roofline(prompt.intensity, 1e15, 1e12) == 1e15
    points = torch.tensor([0.5, 2000.0])  # an axis to draw along
    along = [cost.roofline(x, 1e15, 1e12) for x in (*points, *points.numpy())]
    assert along == [0.5e12, 1e15] * 2


def test_published_shapes_equal_the_default_configs_of_transformers():
    for name, config in (
        ("GPT-2", GPT2Config()),
        ("Mistral-7B-v0.1", MistralConfig()),
    ):
        shape = cost.PUBLISHED[name]
        assert shape.num_layers == config.num_hidden_layers
        assert shape.embed_dim == config.hidden_size
        assert shape.num_heads == config.num_attention_heads
        kv_heads = getattr(config, "num_key_value_heads", shape.num_heads)
        assert shape.num_kv_heads == kv_heads
    assert cost.PUBLISHED["Mistral-7B-v0.1"].window == config.sliding_window


def test_a_window_bounds_the_cache_of_its_layers():
    mistral = cost.PUBLISHED["Mistral-7B-v0.1"]
    token = mistral.cache_bytes(1, 1)
    assert mistral.cache_bytes(1, 100) == 100 * token
    assert mistral.cache_bytes(1, 10**6) == 4096 * token
    gemma = cost.PUBLISHED["Gemma-2-9B"]  # every other layer
    half = gemma.cache_bytes(1, 1) // 2
    assert gemma.cache_bytes(1, 8192) == (8192 + 4096) * half


def test_every_published_shape_is_consistent():
    for name, shape in cost.PUBLISHED.items():
        assert shape.num_heads % shape.num_kv_heads == 0, name
        assert shape.windowed_layers <= shape.num_layers
        assert shape.source
        whole = cost.kv_cache_bytes(
            1, 8192, shape.num_layers, shape.num_kv_heads, shape.head_dim
        )
        assert shape.cache_bytes(1, 8192) <= whole
        assert (shape.cache_bytes(1, 8192) < whole) == bool(shape.window)


REFUSED = {
    "seq_len must be an int, at least 0; got -1": (
        lambda: cost.kv_cache_bytes(1, -1, 1, 1, 1)
    ),
    "embed_dim must be a multiple of num_heads, 3.*; got 10": (
        lambda: cost.attention_parameters(10, 3)
    ),
    "head_dim must be an int, at least 0; got -2": (
        lambda: cost.attention_cost(1, 1, 1, 1, 1, -2)
    ),
    "seq_len must be an int, at least 0; got -3": (
        lambda: cost.linear_cost(1, -3, 1, 8)
    ),
    "chunk_size must be 1 or more, or None; got 0": (
        lambda: cost.linear_cost(1, 1, 1, 8, chunk_size=0)
    ),
}
test_invalid_sizes_are_refused_by_the_cost_functions = refused(
    REFUSED, ValueError
)


def test_a_size_must_be_an_integer():
    with pytest.raises(TypeError, match="seq_len must be an int.*; got 1.5"):
        cost.kv_cache_bytes(1, 1.5, 1, 1, 1)
