"""Counted costs are what counting by hand, or by torch, gives."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPT2Config, MistralConfig

from attn import cost
from attn.cache import StateCache
from attn.linear import gated_delta_rule, linear_attention
from attn.nn import LinearAttention
from tests.attn.refusals import refused
from tests.book.cost_sheet import PAGE, values, x


def test_cache_bytes_equal_published_figures():
    """Two published figures and one from the project's sources."""
    # 2 bytes * 2 * 32 layers * 4096 wide = half a MiB a token.
    assert cost.kv_cache_bytes(1, 1, 32, 32, 128) == 2**19
    quarter = cost.kv_cache_bytes(1, 1, 32, 32, 64, torch.float8_e4m3fn)
    assert quarter == 2**17
    llama = cost.PUBLISHED["Llama-2-7B"]
    assert llama.cache_bytes(1, 4096) == 2 * 2**30
    assert cost.kv_cache_bytes(1, 4096, 1, 8, 128) // 2 == 8_388_608


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
test_invalid_sizes_are_refused_by_cost_functions = refused(REFUSED, ValueError)


# --- layers with a state, as counted by PyTorch and on the page --------------


HEADING = "Layers with a state"
B, L, H, D, DV = 2, 21, 3, 8, 5
TOKENS = {
    "query": torch.randn(B, H, L, D),
    "key": torch.randn(B, H, L, D),
    "value": torch.randn(B, H, L, DV),
}


@pytest.mark.parametrize("delta", (False, True))
@pytest.mark.parametrize("chunk_size", (None, 1, 8, 21, 64))
def test_flops_of_a_rule_equal_those_that_torch_counts(delta, chunk_size):
    rule, call = linear_attention, dict(TOKENS)
    if delta:
        rule = gated_delta_rule
        call |= {"g": None, "beta": torch.rand(B, H, L)}
    mode = "recurrent" if chunk_size is None else "chunk"
    with FlopCounterMode(display=False) as counter:
        rule(**call, mode=mode, chunk_size=chunk_size or 1)
    counted = counter.get_total_flops()
    if delta and chunk_size:  # its triangular solves are not counted
        ends = range(0, L, chunk_size)
        sizes = [min(chunk_size, L - start) for start in ends]
        counted += sum(B * H * C * (C - 1) * DV for C in sizes)
    got = cost.linear_cost(B, L, H, D, DV, delta=delta, chunk_size=chunk_size)
    assert got.flops == counted


def test_bytes_are_those_of_the_tensors_that_a_fused_kernel_moves():
    tokens = sum(t.nbytes for t in TOKENS.values())
    tokens += TOKENS["value"].nbytes  # the output
    state = cost.state_bytes(B, 1, H, D, DV)
    assert state == B * H * D * DV * 4
    for delta, gates in ((False, 1), (True, 2)):
        got = cost.linear_cost(B, L, H, D, DV, torch.float32, delta=delta)
        assert got.bytes == tokens + gates * B * H * L * 4 + 2 * state


def test_the_state_of_a_layer_has_the_bytes_that_are_counted():
    layer, cache = LinearAttention(H * D, H, normalize=False), StateCache()
    for length in (1, 30):
        layer(torch.randn(B, length, H * D), cache=cache)
        assert cache.nbytes == cost.state_bytes(B, 1, H, D)


def test_the_costs_on_the_page_equal_the_cost_model():
    C = x.L  # a single chunk
    for name, delta in (("linear attention", False), ("delta rule", True)):
        call = {"delta": delta}
        loop = values(HEADING, f"{name}, token by token")
        for n, flops in zip((x.L, 1), loop, strict=True):
            got = cost.linear_cost(x.B, n, x.H, x.D, chunk_size=None, **call)
            assert got.flops == flops
        (flops,) = values(HEADING, f"{name}, in chunks", C=C)
        got = cost.linear_cost(x.B, x.L, x.H, x.D, chunk_size=C, **call)
        assert got.flops == flops
    held = values(HEADING, "bytes of the state")
    assert held == [cost.state_bytes(x.B, 1, x.H, x.D)] * 2
    assert len(PAGE[HEADING]) == 5


def test_decoding_moves_a_state_twice_whatever_was_read():
    """As many bytes as softmax reads of the cache that the page names."""
    step = cost.linear_cost(1, 1, 16, 128, chunk_size=None)
    tokens = 4 * 128 // 2
    cache = cost.kv_cache_bytes(1, tokens, 1, 16, 128)
    assert step.bytes == pytest.approx(cache, rel=0.01)
