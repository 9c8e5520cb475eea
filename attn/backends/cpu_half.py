"""float16 and bfloat16 on a CPU: a tile of heads at a time, in float32.

A CPU without units for 16 bits is slow at them, at gradients above all. A
few heads cast to float32 stay in its cache while torch's fused function works
on them, which costs less than it saves. Nothing is lost: the probabilities,
which torch rounds to 16 bits on the way, are not rounded at all.
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

from attn.backends.registry import ONE_GRAPH
from attn.backends.sdpa import torch_mask, why_not_sdpa_on_cpu
from attn.functional.inputs import Call

__all__ = [
    "casting_pays",
    "run_halves",
    "slower_halves",
    "unmeasured",
    "why_not_halves",
]

HALVES = (torch.float16, torch.bfloat16)
MEASURED_ON = "AVX2"  # where the numbers below come from
TILE_BYTES = 2 * 2**20  # keys and values of a tile, in float32
FEW = 2**15  # scores; below, it takes longer to cut than to compute
FEW_KEYS = 2**13  # the same where each head has one query


def why_not_halves(call: Call) -> list[str]:
    """What keeps a call from being computed so."""
    if call.query.dtype not in HALVES:
        return ["query is not float16 or bfloat16: nothing to cast"]
    return why_not_sdpa_on_cpu(call)


def slower_halves(call: Call) -> str | None:
    """Why casting does not pay."""
    if torch.compiler.is_compiling():
        return ONE_GRAPH
    if reason := unmeasured():
        return reason
    one = call.q_len == 1
    if call.query.dtype == torch.bfloat16 and not call.wants_gradient:
        if not one:
            return "torch is as fast in bfloat16, but for gradients"
        if call.group_size > 1:
            return "packed reads the keys as they are"
    scores, enough = math.prod(call.scores_shape), FEW_KEYS if one else FEW
    if scores < enough:
        return f"there are {scores:,} scores: casting pays from {enough:,}"
    return None


def casting_pays(call: Call) -> bool:
    """Whether float32 is the faster way to compute a call's numbers."""
    return call.query.dtype in HALVES and slower_halves(call) is None


def run_halves(call: Call) -> Tensor:
    """Tile by tile: cast, computed by torch, and cast back."""
    given = (call.query, call.key, call.value)
    query, key, value = map(call.four_axes, given)
    rows, heads = _tile(call)
    group = call.group_size
    options = torch_mask(call)
    mask = options.pop("attn_mask", None)
    if mask is not None:
        mask = mask if mask.dtype == torch.bool else mask.float()
        mask = call.four_axes(mask.expand(call.scores_shape))
    outs = []
    shares = (heads * group, heads, heads, heads * group)
    for row in _split((query, key, value, mask), (rows,) * 4, 0):
        tiles = [
            F.scaled_dot_product_attention(
                q.float(),
                k.float(),
                v.float(),
                m,
                dropout_p=call.dropout_p,
                scale=call.scale,
                enable_gqa=group > 1,
                **options,
            ).to(query.dtype)
            for q, k, v, m in _split(row, shares, 1)
        ]
        outs.append(torch.cat(tiles, 1))
    out = torch.cat(outs)
    return out.reshape(*call.scores_shape[:-1], out.shape[-1])


def _tile(call: Call) -> tuple[int, int]:
    """Rows of the batch, and their key heads, that are cast at a time."""
    features = call.key.shape[-1] + call.value.shape[-1]
    fit = TILE_BYTES // (4 * call.kv_len * features)
    fit = max(fit, torch.get_num_threads())  # a head for each
    heads = min(fit, call.num_kv_heads)
    return max(fit // call.num_kv_heads, 1), heads


def _split(
    tensors: tuple[Tensor | None, ...], sizes: tuple[int, ...], axis: int
) -> Iterator[tuple[Any, ...]]:
    """Side by side along an axis. ``split``, since the gradient of slices
    adds up as many zeros as there are tiles."""
    parts = [
        itertools.repeat(None) if x is None else x.split(size, axis)
        for x, size in zip(tensors, sizes, strict=True)
    ]
    return zip(*parts, strict=False)


@functools.cache
def unmeasured() -> str | None:
    """Why nobody knows whether it pays on this CPU."""
    found = torch.backends.cpu.get_cpu_capability()
    if found == MEASURED_ON:
        return None
    return (
        f"torch uses {found} here, and it was measured with {MEASURED_ON} "
        "alone: attn.api.warmup(...) compares"
    )
