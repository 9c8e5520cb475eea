"""An argument of another kind is named in the error, by every function.

Each call below is right. With one argument exchanged, for None, a list, a
string or a number of another kind, it raises TypeError or ValueError, and the
message names the argument: nothing from inside of PyTorch, nothing silent.
"""

import inspect
import re
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import attn
from attn import cost, linear, plot, serving
from tests.attn.models import SIZES
from tests.attn.public_calls import public_call


def x(*shape):
    return torch.linspace(-1, 1, torch.Size(shape).numel()).view(shape)


HEADS = x(2, 4, 5, 8)
STATE = (x(2, 3), x(2))
IDS = torch.arange(5)
POOL = attn.PagePool(8, 4, 2, 8)
MHA = attn.MultiHeadAttention(16, 4, rope=attn.Rope(4))
QKV = {"query": HEADS, "key": HEADS, "value": HEADS}
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
COUNTS = {"batch": 1, "num_layers": 2, "num_heads": 4, "head_dim": 8}
FLOAT = {"dtype": torch.float32}
CALLS = [
    (attn.attention, {**QKV, "registry": attn.api.registry}),
    (attn.api.explain, {**QKV, "registry": attn.api.registry}),
    (attn.scaled_dot_product_attention, {**QKV, "scale": 0.5}),
    (attn.softmax, {"x": x(2, 3), "dim": -1}),
    (attn.tiled_attention, {**QKV, "block_q": 2, "block_k": 2}),
    (attn.merge_states, {"first": STATE, "second": STATE}),
    (attn.online_softmax, {"blocks": [(x(2, 3), x(3, 4))]}),
    (attn.causal().dense, {"q_len": 5, "kv_len": 5, "batch": 1, "heads": 1}),
    (attn.causal().bias, {**FLOAT, "q_len": 5, "kv_len": 5}),
    (attn.causal().block_mask, {"q_len": 5, "kv_len": 5, "block_size": 128}),
    (attn.Mask, {"predicate": attn.causal().predicate, "text": "mine"}),
    (attn.masks.top_k, {"scores": x(2, 5, 6), "k": 2}),
    (
        attn.dependency_mask,
        {"attention": attn.attention, "q_len": 4, "kv_len": 4, "q_offset": 0},
    ),
    (attn.sinusoidal, {"seq_len": 5, "dim": 8, "base": 1e4}),
    (attn.SinusoidalPositions, {"dim": 8, "base": 1e4}),
    (attn.LearnedPositions, {"max_len": 8, "dim": 8}),
    (attn.alibi_slopes, {"num_heads": 4}),
    (attn.alibi_bias, {"num_heads": 4, "query_positions": 5}),
    (attn.alibi_score, {"num_heads": 4, "q_offset": 0}),
    (
        attn.rope_frequencies,
        {"head_dim": 8, "base": 1e4, "type": "linear", "factor": 2.0},
    ),
    (
        partial(attn.rope_frequencies, type="llama3"),
        {
            "head_dim": 8,
            "factor": 2.0,
            **LLAMA3,
            "original_max_position_embeddings": 8,
        },
    ),
    (
        attn.rope_tables,
        {"positions": IDS, "frequencies": attn.rope_frequencies(8)},
    ),
    (attn.NoRope, {"head_dim": 8}),
    (attn.NoRope(8), {"x": IDS}),
    (
        attn.MultiHeadAttention,
        {
            "embed_dim": 16,
            "num_heads": 4,
            "num_kv_heads": 2,
            "head_dim": 4,
            "value_dim": 4,
            "kdim": 16,
            "vdim": 16,
            "dropout": 0.0,
            "norm_eps": 1e-6,
            "softcap": 2.0,
            "scale": 0.5,
            "window": (1, 0),
        },
    ),
    (MHA, {"query": x(2, 5, 16), "positions": IDS}),
    (partial(attn.llama_style, num_kv_heads=1), SIZES),
    (attn.RMSNorm, {"dim": 8, "eps": 1e-6}),
    (attn.LayerNorm, {"dim": 8, "eps": 1e-6}),
    (attn.FeedForward, {"embed_dim": 8, "hidden_dim": 16}),
    (attn.SwiGLU, {"embed_dim": 8, "hidden_dim": 16}),
    (
        attn.PagePool,
        {"num_pages": 8, "page_size": 4, "num_kv_heads": 2, "head_dim": 8},
    ),
    (attn.PagedCache, {"pool": POOL, "batch": 2}),
    (linear.short_convolution, {"x": x(2, 5, 8), "weight": x(8, 3)}),
    (
        cost.attention_parameters,
        {"embed_dim": 16, "num_heads": 4, "head_dim": 4},
    ),
    (cost.roofline, {"intensity": 1.0, "peak": 1.0, "bandwidth": 1.0}),
    (cost.state_bytes, {**COUNTS, **FLOAT}),
    (serving.Scheduler, {"pool": POOL, "max_num_seqs": 2}),
    (serving.PrefixCache, {"pool": POOL}),
    (serving.Request, {"id": 1, "prompt_ids": [1], "max_new_tokens": 2}),
    (serving.tree_mask, {"parents": [-1, 0]}),
    (serving.prompt_lookup, {"ids": [1, 2, 1], "ngram": 1, "k": 1}),
    (
        attn.distributed.shard_heads,
        {"num_heads": 4, "num_kv_heads": 2, "rank": 0, "world_size": 2},
    ),
    (plot.color_of, {"name": "RNN"}),
    (attn.profiling.peak_bytes, {"function": dict}),
    (
        attn.profiling.benchmark_interleaved,
        {"calls": {"a": dict}, "rounds": 1},
    ),
    (
        attn.MultiHeadAttention,
        {"embed_dim": 8, "num_heads": 2, "impl": "sdpa"},
    ),
    (plot.lines, {"curves": {"a": [1.0, 2.0]}}),
    (plot.histograms, {"samples": {"a": [1.0, 2.0]}}),
    (plot.masks_grid, {"masks": {"a": attn.causal()}, "q_len": 3}),
]
PUBLIC = """
functional.index_scores functional.merge_heads functional.pool_heads
functional.repeat_kv functional.split_heads linear.elu_plus_one
linear.gated_delta_rule linear.taylor masks.top_k_blocks nn.BatchNorm
nn.FeedForward nn.LayerNorm nn.RMSNorm nn.SwiGLU nn.Transformer
positions.LearnedPositions positions.Rope positions.SinusoidalPositions
positions.apply_rope positions.position_ids serving.acceptance
serving.cascade_attention serving.paged_attention serving.residual
serving.verify_greedy
"""
CALLS += map(public_call, PUBLIC.split())
LOSS, GIVEN = public_call("functional.indexer_loss")
CALLS += [(LOSS, GIVEN | {"attn_mask": torch.ones(5, 7) > 0})]
#: They move elements of any dtype.
MOVED = (attn.split_heads, attn.merge_heads, attn.repeat_kv)
#: Whatever can be one.
ANY = {"id", "arrival", "text", "type", "output_final_state"}
CASES = [
    pytest.param(call, kwargs, name, id=f"{i}-{name}")
    for i, (call, kwargs) in enumerate(CALLS)
    for name in kwargs
    if name not in ANY
]


def others(value, call):
    """Values of another kind than this argument."""
    if isinstance(value, Tensor):
        tensors = () if call in MOVED else (value.to(torch.complex64),)
        return (3, [1.0], "x", np.zeros(3), *tensors)
    if isinstance(value, bool | torch.dtype):
        return ("float32", 3)
    if isinstance(value, int):
        return (1.5, "3", [1])
    if isinstance(value, float):
        return ("x", [1.0], float("nan"))
    return (3, object())


@pytest.mark.parametrize(("call", "kwargs", "name"), CASES)
def test_an_argument_of_another_kind_is_named(call, kwargs, name):
    call(**kwargs)
    wrong = [*others(kwargs[name], call)]
    function = call.forward if isinstance(call, nn.Module) else call
    parameter = inspect.signature(function).parameters.get(name)
    if parameter is None or "None" not in str(parameter.annotation):
        wrong.append(None)
    for x in wrong:
        with pytest.raises((TypeError, ValueError)) as info:
            call(**kwargs | {name: x})
        text = str(info.value)
        assert re.search(rf"\b{name}\b.* (must|needs)", text), (x, text)
        assert "; got" in text or "must be given" in text, text
