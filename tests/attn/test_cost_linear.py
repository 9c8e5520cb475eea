"""What a layer with a state costs, as counted by PyTorch and on the page."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attn import cost
from attn.cache import StateCache
from attn.linear import gated_delta_rule, linear_attention
from attn.nn import LinearAttention
from tests.book.cost_sheet import PAGE, values, x

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
        for length, flops in zip((x.L, 1), loop, strict=True):
            got = cost.linear_cost(
                x.B, length, x.H, x.D, chunk_size=None, **call
            )
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
