"""A window on a CPU: only the keys that a block of queries can see.

The call is cut up so that torch's fused function does what it is good at. It
is exact: nothing is rounded that torch does not round.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.backends.cpu_half import casting_pays
from attn.backends.registry import ONE_GRAPH
from attn.backends.sdpa import why_not_sdpa_on_cpu
from attn.functional.inputs import Call

__all__ = ["run_banded", "slower_banded", "why_not_banded"]

BLOCK = 128  # queries at a time under a window


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
