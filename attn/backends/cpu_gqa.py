"""Decoding on a CPU: the queries of a group as the rows of one head.

Torch's fused function computes what is left, or two products of matrices do.
It is exact: nothing is rounded that torch does not round.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.backends.registry import ONE_GRAPH
from attn.backends.sdpa import (
    hides_nothing,
    torch_mask,
    why_not_sdpa_on_cpu,
)
from attn.functional.inputs import Call

__all__ = ["run_packed", "slower_packed", "why_not_packed"]

FEW_ROWS = (3, 4)  # queries of a group that are multiplied with its keys
LARGE_CACHE = 32 * 2**20  # bytes of keys and values, no less


def why_not_packed(call: Call) -> list[str]:
    """What keeps the heads of a group from being one head's queries."""
    if call.group_size == 1:
        return ["every query head has its own keys: nothing to pack"]
    lacks = why_not_sdpa_on_cpu(call)
    leads = [x.shape[:-3] for x in (call.query, call.key, call.value)]
    if not leads[0] == leads[1] == leads[2]:
        lacks.append("the batch axes differ: packing needs the same")
    return lacks


def slower_packed(call: Call) -> str | None:
    """Why packing does not pay."""
    if torch.compiler.is_compiling():
        return ONE_GRAPH
    rows = call.group_size * call.q_len
    if rows > 64:
        return f"a group has {rows} queries: packing pays up to 64"
    return None


def run_packed(call: Call) -> Tensor:
    """Each key head once, with the queries of all heads that share it."""
    given, heads, group = call.query, call.num_kv_heads, call.group_size
    *lead, _, length, features = given.shape
    # (..., H, L, D) as (..., Hkv, G * L, D)
    query = given.reshape(*lead, heads, group * length, features)
    mask = None
    if call.attn_mask is not None or not hides_nothing(call):
        mask = torch_mask(call).get("attn_mask")
        if mask is None:
            mask = call.allowed()
        assert mask is not None
        mask = mask.expand(*call.scores_shape).unflatten(-3, (heads, group))
        mask = mask.flatten(-3, -2)  # (..., Hkv, G * L, S)
    if mask is None and _streams(call):
        out = _by_products(call, query)
    else:
        out = F.scaled_dot_product_attention(
            query,
            call.key,
            call.value,
            mask,
            dropout_p=call.dropout_p,
            scale=call.scale,
        )
    return out.reshape(*lead, heads * group, length, out.shape[-1])


def _streams(call: Call) -> bool:
    """Whether the time goes into reading keys that no cache holds, for rows
    that are few enough, and not so few that there is little to share."""
    rows = call.group_size * call.q_len
    if rows not in FEW_ROWS or call.dropout_p:
        return False
    size = 4 * (call.key.numel() + call.value.numel())
    return call.query.dtype == torch.float32 and size >= LARGE_CACHE


def _by_products(call: Call, query: Tensor) -> Tensor:
    """Keys times queries, and not the other way round: a product of matrices
    streams its tall operand best when that comes first."""
    scores = call.key @ (query * call.scale).mT  # (..., Hkv, S, G * L)
    return scores.mT.contiguous().softmax(-1) @ call.value
