"""Two shapes of call that a CPU can do faster than torch's own function does.

Both cut the call up so that torch's fused function does what it is good at,
and both are exact: nothing is rounded that torch does not round.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.backends.halves import casting_pays
from attn.backends.sdpa import (
    hides_nothing,
    torch_mask,
    why_not_sdpa_on_cpu,
)
from attn.contract import Call
from attn.registry import ONE_GRAPH

__all__ = [
    "run_banded",
    "run_packed",
    "slower_banded",
    "slower_packed",
    "why_not_banded",
    "why_not_packed",
]

BLOCK = 128  # queries at a time under a window
FEW_ROWS = (3, 4)  # queries of a group that are multiplied with its keys
LARGE_CACHE = 32 * 2**20  # bytes of keys and values, no less


# --- a window: only the keys that a block of queries can see -----------------


def why_not_banded(call: Call) -> list[str]:
    """What keeps a call from being cut along its band."""
    if _bounds(call) is None:
        return ["there is no window: it needs a bound on either side"]
    lacks = why_not_sdpa_on_cpu(call)
    if call.attn_mask is not None:
        lacks.append("attn_mask is a tensor: it needs rules alone")
    if not isinstance(call.q_offset, int):
        lacks.append("q_offset is a tensor: the bands would differ")
    return lacks


def slower_banded(call: Call) -> str | None:
    """Why cutting does not pay."""
    bounds = _bounds(call)
    if bounds is None:
        return None
    if torch.compiler.is_compiling():
        return ONE_GRAPH
    seen = sum(bounds) + BLOCK
    if 2 * seen > call.kv_len:
        return (
            f"a block of queries sees {seen} of {call.kv_len} keys: cutting "
            "pays below half"
        )
    return None


def run_banded(call: Call) -> Tensor:
    """Block by block of queries, each with the keys that it can see."""
    bounds = _bounds(call)
    assert bounds is not None and call.mask is not None
    assert isinstance(call.q_offset, int)
    (left, right), start = bounds, call.q_offset
    query, key, value = call.query, call.key, call.value
    if casting_pays(call):
        query, key, value = query.float(), key.float(), value.float()
    masks: dict[tuple[int, ...], Tensor] = {}
    outs = []
    for top in range(0, call.q_len, BLOCK):
        end = min(top + BLOCK, call.q_len)
        lo = min(max(start + top - left, 0), call.kv_len - 1)
        hi = max(min(start + end + right, call.kv_len), lo + 1)
        # Blocks that lie alike in the band have the same mask.
        place = (top - lo, end - top, hi - lo)
        if place not in masks or not call.mask.is_relative:
            allowed = call.allowed(slice(top, end), slice(lo, hi))
            assert allowed is not None
            numbers = torch.where(allowed, 0.0, -torch.inf)  # torch adds them
            masks[place] = numbers.to(query.dtype)
        outs.append(
            F.scaled_dot_product_attention(
                query[..., top:end, :],
                key[..., lo:hi, :],
                value[..., lo:hi, :],
                masks[place],
                dropout_p=call.dropout_p,
                scale=call.scale,
                enable_gqa=call.num_heads != call.num_kv_heads,
            )
        )
    return torch.cat(outs, -2).to(call.query.dtype)


def _bounds(call: Call) -> tuple[int, int] | None:
    """Neighbours on either side that the rules leave; None: no bound."""
    if call.mask is None:
        return None
    left, right = call.mask.bounds
    return None if left is None or right is None else (left, right)


# --- decoding: the queries of a group as the rows of one head ----------------


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
