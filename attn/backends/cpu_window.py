"""Sliding windows on a CPU: each block of queries reads only its own keys.

Every block is one call of PyTorch's fused function, and exact: nothing is
rounded that PyTorch does not round.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attn.backends.cpu_half import casting_pays
from attn.backends.registry import TRACING
from attn.backends.sdpa import torchs_function, unsupported_on_cpu
from attn.functional.inputs import AttentionInputs

__all__ = ["deprioritized", "run", "unsupported_reasons"]

BLOCK = 64  # queries at a time under a window


def unsupported_reasons(inputs: AttentionInputs) -> list[str]:
    """Return why a call cannot be cut along its band."""
    if _bounds(inputs) is None:
        return ["no window: both sides must be bounded"]
    reasons = unsupported_on_cpu(inputs)
    if inputs.attn_mask is not None:
        reasons.append("attn_mask is a tensor: pass a Mask")
    if not isinstance(inputs.q_offset, int):
        reasons.append("q_offset is a tensor: the bands would differ")
    return reasons


def deprioritized(inputs: AttentionInputs) -> str | None:
    """Return why cutting is no faster."""
    bounds = _bounds(inputs)
    if bounds is None:
        return None
    if torch.compiler.is_compiling():
        return TRACING
    seen = sum(bounds) + BLOCK
    if 2 * seen > inputs.kv_len:
        return (
            f"a block of queries reads {seen} of {inputs.kv_len} keys: it "
            "pays below half"
        )
    return None


def run(inputs: AttentionInputs) -> Tensor:
    """Compute each block of queries with the keys in its window."""
    bounds = _bounds(inputs)
    assert bounds is not None and inputs.mask is not None
    assert isinstance(inputs.q_offset, int)
    (left, right), start = bounds, inputs.q_offset
    query, key, value = inputs.query, inputs.key, inputs.value
    if casting_pays(inputs):
        query, key, value = query.float(), key.float(), value.float()
    masks: dict[tuple[int, ...], Tensor] = {}
    torchs, outs = torchs_function(inputs), []
    for top in range(0, inputs.q_len, BLOCK):
        end = min(top + BLOCK, inputs.q_len)
        lo = min(max(start + top - left, 0), inputs.kv_len - 1)
        hi = max(min(start + end + right, inputs.kv_len), lo + 1)
        # Blocks at the same place in the band share a mask.
        place = (top - lo, end - top, hi - lo)
        if place not in masks or not inputs.mask.is_relative:
            allowed = inputs.mask_tile(slice(top, end), slice(lo, hi))
            assert allowed is not None
            numbers = torch.where(allowed, 0.0, -torch.inf)  # torch adds them
            masks[place] = numbers.to(query.dtype)
        q, k, v = (
            query[..., top:end, :],
            key[..., lo:hi, :],
            value[..., lo:hi, :],
        )
        outs.append(torchs(q, k, v, masks[place]))
    return torch.cat(outs, -2).to(inputs.query.dtype)


def _bounds(inputs: AttentionInputs) -> tuple[int, int] | None:
    """Return the neighbours kept on either side; None if unbounded."""
    left, right = inputs.mask.bounds if inputs.mask else (None, None)
    return None if left is None or right is None else (left, right)
