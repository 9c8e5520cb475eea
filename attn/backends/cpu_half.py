"""float16 and bfloat16 on a CPU: a tile of heads at a time, in float32.

CPUs without native 16-bit arithmetic are slow in half precision, above all in
the backward pass. A few heads cast to float32 stay in the cache while
PyTorch's fused function computes them, which saves more than it costs. It is
more exact, too: the probabilities are not rounded to 16 bits on the way.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.backends.registry import TRACING
from attn.backends.sdpa import torch_mask, unsupported_on_cpu
from attn.functional.inputs import AttentionInputs

__all__ = [
    "casting_pays",
    "run",
    "deprioritized",
    "unmeasured",
    "unsupported_reasons",
]

HALVES = (torch.float16, torch.bfloat16)
MEASURED_ON = "AVX2"  # where the numbers below come from
TILE_BYTES = 2 * 2**20  # keys and values of a tile, in float32
FEW = 2**15  # scores; below, it takes longer to cut than to compute
FEW_KEYS = 2**13  # the same where each head has one query


def unsupported_reasons(inputs: AttentionInputs) -> list[str]:
    """Return why a call cannot be cast."""
    if inputs.query.dtype not in HALVES:
        return ["query is not float16 or bfloat16: nothing to cast"]
    return unsupported_on_cpu(inputs)


def deprioritized(inputs: AttentionInputs) -> str | None:
    """Return why casting is no faster."""
    if torch.compiler.is_compiling():
        return TRACING
    if reason := unmeasured():
        return reason
    one = inputs.q_len == 1
    if inputs.query.dtype == torch.bfloat16 and not inputs.requires_grad:
        if not one:
            return "torch is as fast in bfloat16, but for gradients"
        if inputs.group_size > 1:
            return "pack_gqa reads the keys as they are"
    scores, enough = math.prod(inputs.scores_shape), FEW_KEYS if one else FEW
    if scores < enough:
        return f"there are {scores:,} scores: casting pays from {enough:,}"
    return None


def casting_pays(inputs: AttentionInputs) -> bool:
    """Return whether float32 is the faster way to compute a call."""
    return inputs.query.dtype in HALVES and deprioritized(inputs) is None


def run(inputs: AttentionInputs) -> Tensor:
    """Cast, compute with PyTorch and cast back, tile by tile."""
    given = (inputs.query, inputs.key, inputs.value)
    query, key, value = map(inputs.to_4d, given)
    rows, heads = _tile(inputs)
    group = inputs.group_size
    options = torch_mask(inputs)
    mask = options.pop("attn_mask", None)
    if mask is not None:
        mask = mask if mask.dtype == torch.bool else mask.float()
        mask = inputs.to_4d(mask.expand(inputs.scores_shape))
    outs = []
    shares = (heads * group, heads, heads, heads * group)
    for row in _split((query, key, value, mask), (rows,) * 4, 0):
        tiles = [
            F.scaled_dot_product_attention(
                q.float(),
                k.float(),
                v.float(),
                m,
                dropout_p=inputs.dropout_p,
                scale=inputs.scale,
                enable_gqa=group > 1,
                **options,
            ).to(query.dtype)
            for q, k, v, m in _split(row, shares, 1)
        ]
        outs.append(torch.cat(tiles, 1))
    return inputs.from_4d(torch.cat(outs))


def _tile(inputs: AttentionInputs) -> tuple[int, int]:
    """Return the batch rows and key heads that are cast at a time."""
    features = inputs.key.shape[-1] + inputs.value.shape[-1]
    fit = TILE_BYTES // (4 * inputs.kv_len * features)
    fit = max(fit, torch.get_num_threads())  # a head for each
    heads = min(fit, inputs.num_kv_heads)
    return max(fit // inputs.num_kv_heads, 1), heads


def _split(
    tensors: tuple[Tensor | None, ...], sizes: tuple[int, ...], axis: int
) -> Iterator[tuple[Any, ...]]:
    """Split tensors along an axis, in step.

    ``Tensor.split``: the gradient of slices adds up a full tensor of zeros
    for every tile.
    """
    parts = [
        itertools.repeat(None) if x is None else x.split(size, axis)
        for x, size in zip(tensors, sizes, strict=True)
    ]
    return zip(*parts, strict=False)


@functools.cache
def unmeasured() -> str | None:
    """Return why the crossover is unknown on this CPU."""
    found = torch.backends.cpu.get_cpu_capability()
    if found == MEASURED_ON:
        return None
    return (
        f"torch uses {found} here; it was measured with {MEASURED_ON} alone: "
        "attn.api.autotune(...) compares"
    )
