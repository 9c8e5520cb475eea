"""Sliding windows on a CPU: each block of queries reads only its own keys.

Blocks that look alike are the batch of a call of PyTorch's fused function:
their keys overlap in memory, and are not copied. It is exact: nothing is
rounded that PyTorch does not round.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product

import torch
from torch import Tensor

from attn.backends.cpu_half import casting_pays
from attn.backends.registry import RECORDING, TRACING
from attn.backends.sdpa import torchs_function, unsupported_on_cpu
from attn.functional.inputs import AttentionInputs

__all__ = ["deprioritized", "run", "unsupported_reasons"]

BLOCK = 64  # queries under one part of the mask
AT_ONCE = 16  # blocks of a call


def unsupported_reasons(inputs: AttentionInputs) -> list[str]:
    """Return why a call cannot be cut along its band."""
    if _bounds(inputs) is None:
        return ["no window: both sides must be bounded"]
    reasons = unsupported_on_cpu(inputs)
    if inputs.attn_mask is not None:
        reasons.append("attn_mask is a tensor: pass a Mask")
    if not isinstance(inputs.q_offset, int):
        reasons.append("q_offset is a tensor: the bands would differ")
    if torch.jit.is_tracing():  # type: ignore[attr-defined]
        reasons.append(RECORDING)
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
    tensors = [*inputs.qkv]
    if casting_pays(inputs):
        tensors = [x.float() for x in tensors]
    alike = _alike(inputs, *bounds)
    call = (inputs, tensors, bounds)
    parts = chain(
        _one_by_one(*call, range(0, alike.start, BLOCK)),
        _at_once(*call, alike),
        _one_by_one(*call, range(alike.stop, inputs.q_len, BLOCK)),
    )
    if inputs.requires_grad:
        return torch.cat([*parts], -2).to(inputs.query.dtype)
    # Each part is dropped at once: the next one gets its memory.
    shape = (*inputs.query.shape[:-1], inputs.value.shape[-1])
    out, start = inputs.query.new_empty(shape), 0
    for part in parts:
        stop = start + part.shape[-2]
        out[..., start:stop, :] = part
        start = stop
    return out


def _alike(inputs: AttentionInputs, left: int, right: int) -> range:
    """Return the first queries of the blocks whose window is whole.

    If a mask says more than the window, no two blocks are alike; nor can one
    call have a key's batch that is not the query's.
    """
    assert inputs.mask is not None and isinstance(inputs.q_offset, int)
    leads = {x.shape[:-3] for x in inputs.qkv}
    start = inputs.q_offset
    first = -(-max(left - start, 0) // BLOCK)
    last = min(inputs.q_len, inputs.kv_len - right - start) // BLOCK
    if not inputs.mask.is_relative or len(leads) > 1 or last - first < 2:
        return range(0, 0, BLOCK)
    return range(first * BLOCK, last * BLOCK, BLOCK)


def _at_once(
    inputs: AttentionInputs,
    tensors: list[Tensor],
    bounds: tuple[int, int],
    tops: range,
) -> Iterator[Tensor]:
    """Yield some blocks of queries whose windows are alike, and the next."""
    assert isinstance(inputs.q_offset, int)
    (left, right), torchs = bounds, torchs_function(inputs)
    size = left + BLOCK + right  # keys of a block
    q, k, v = (x if x.dim() > 2 else x[None] for x in tensors)
    if not tops:
        return
    lo = inputs.q_offset + tops.start - left
    rows = slice(tops.start, tops.start + BLOCK)
    mask = _numbers(inputs, rows, slice(lo, lo + size)).to(q.dtype)
    for first in range(tops.start, tops.stop, AT_ONCE * BLOCK):
        count = min(AT_ONCE, (tops.stop - first) // BLOCK)
        lo = inputs.q_offset + first - left
        outs = []
        for at in product(*map(range, q.shape[:-3])):
            given = [_blocks(q[at], first, BLOCK, count)]
            given += (_blocks(x[at], lo, size, count) for x in (k, v))
            out = torchs(*given, mask)  # (N, H, BLOCK, Dv)
            outs.append(out.transpose(0, 1).flatten(1, 2))
        shape = (*tensors[0].shape[:-2], BLOCK * count, outs[0].shape[-1])
        yield torch.stack(outs).view(shape)


def _blocks(x: Tensor, start: int, size: int, count: int) -> Tensor:
    """View ``(H, L, D)`` as overlapping blocks, ``(N, H, size, D)``."""
    rows = x[:, start : start + size + (count - 1) * BLOCK]
    return rows.unfold(1, size, BLOCK).permute(1, 0, 3, 2)


def _one_by_one(
    inputs: AttentionInputs,
    tensors: list[Tensor],
    bounds: tuple[int, int],
    tops: range,
) -> Iterator[Tensor]:
    """Yield blocks of queries whose windows may be cut off."""
    assert inputs.mask is not None and isinstance(inputs.q_offset, int)
    (left, right), start = bounds, inputs.q_offset
    masks: dict[tuple[int, ...], Tensor] = {}
    torchs = torchs_function(inputs)
    for top in tops:
        end = min(top + BLOCK, inputs.q_len)
        lo = min(max(start + top - left, 0), inputs.kv_len - 1)
        hi = max(min(start + end + right, inputs.kv_len), lo + 1)
        # Blocks at the same place in the band share a mask.
        place = (top - lo, end - top, hi - lo)
        if place not in masks or not inputs.mask.is_relative:
            masks[place] = _numbers(inputs, slice(top, end), slice(lo, hi))
        q = tensors[0][..., top:end, :]
        k, v = (x[..., lo:hi, :] for x in tensors[1:])
        yield torchs(q, k, v, masks[place].to(q.dtype))


def _numbers(inputs: AttentionInputs, rows: slice, keys: slice) -> Tensor:
    """Return a part of the mask as PyTorch adds it."""
    allowed = inputs.mask_tile(rows, keys)
    assert allowed is not None and inputs.mask is not None
    if inputs.mask.is_relative:  # of all heads
        allowed = allowed[(0,) * (allowed.dim() - 2)]
    return torch.where(allowed, 0.0, -torch.inf)


def _bounds(inputs: AttentionInputs) -> tuple[int, int] | None:
    """Return the neighbours kept on either side; None if unbounded."""
    mask = inputs.mask
    left, right = (None, None) if mask is None else mask.bounds
    return None if left is None or right is None else (left, right)
