"""What one tile of scores is: the part that all kernels share.

A tile is some queries of one head against some keys. Its scores are scaled,
capped, biased and masked here, in the forward kernel as in the backward ones,
so that both mean the same thing. Everything is in base 2, because that is the
exponential that a GPU has: ``exp(x) = exp2(x * log2(e))``.
"""

from __future__ import annotations

import os

import triton
import triton.language as tl

__all__ = [
    "INTERPRETED",
    "LOG2E",
    "capped",
    "dot",
    "exp2_safe",
    "keys_of_rows",
    "tile_scores",
]

INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") == "1"
_INTERPRETED: tl.constexpr = tl.constexpr(INTERPRETED)
LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def dot(a, b, PRECISION: tl.constexpr):
    """Matrix product, accumulated in float32."""
    if _INTERPRETED:  # NumPy has no bfloat16, and multiplies the bits
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def exp2_safe(x, top):
    """``2 ** (x - top)``, and 0 where both are minus infinity."""
    return tl.math.exp2(x - tl.where(top == float("-inf"), 0.0, top))


@triton.jit
def capped(scores, softcap):
    """``softcap * tanh(scores / softcap)``, and tanh alone, for its slope."""
    x = scores / softcap
    t = tl.math.exp2(tl.abs(x) * (-2.0 * LOG2E))  # never above 1
    tanh = (1.0 - t) / (1.0 + t)
    tanh = tl.where(x < 0.0, -tanh, tanh)
    return softcap * tanh, tanh


@triton.jit
def tile_scores(
    product, row, column, L, S, q_offset, left, right, scale, softcap,
    MASK, m_l, m_s, VALID,
    MASKED: tl.constexpr,  # whether some pair of this tile may be hidden
    BANDED: tl.constexpr, MASK_KIND: tl.constexpr, HAS_VALID: tl.constexpr,
    HAS_CAP: tl.constexpr,
):  # fmt: skip
    """From dot products to what goes into ``exp2``, and the cap's slope.

    ``row`` and ``column`` broadcast to the tile: ``(l, 1)`` and ``(1, s)``,
    or turned round. ``row + q_offset`` is where a query stands; it sees
    ``left`` keys before itself and ``right`` behind.
    """
    scores = product * scale
    slope = scores
    if HAS_CAP:
        scores, tanh = capped(scores, softcap)
        slope = 1.0 - tanh * tanh
    scores = scores * LOG2E
    if MASKED:
        allowed = (row < L) & (column < S)
        if MASK_KIND > 0:
            given = tl.load(
                MASK + row.to(tl.int64) * m_l + column.to(tl.int64) * m_s,
                mask=allowed,
                other=0,
            )
            if MASK_KIND == 1:
                allowed = allowed & (given != 0)
            else:
                scores += given.to(tl.float32) * LOG2E
        if BANDED > 0:
            distance = column - (row + q_offset)
            allowed = allowed & (distance <= right)
            if BANDED == 2:
                allowed = allowed & (distance >= -left)
        if HAS_VALID:
            real = tl.load(VALID + column, mask=column < S, other=0)
            allowed = allowed & (real != 0)
        scores = tl.where(allowed, scores, float("-inf"))
    return scores, slope


@triton.jit
def keys_of_rows(
    first, last, left, right, S,
    BLOCK_S: tl.constexpr, BANDED: tl.constexpr, EVERY: tl.constexpr,
):  # fmt: skip
    """Where the keys of a block of queries begin and end, in whole tiles.

    ``first`` and ``last`` are positions of queries. Between ``all_lo`` and
    ``all_hi`` every query sees every key and nothing has to be masked (none
    such with ``EVERY``: each tile has to be looked at).
    """
    lo, hi, all_lo, all_hi = 0, S, 0, S
    if BANDED == 2:
        lo = tl.minimum(tl.maximum(first - left, 0), S)
        all_lo = tl.maximum(last - left, lo)
    if BANDED > 0:
        hi = tl.maximum(tl.minimum(last + right + 1, S), lo)
        all_hi = tl.minimum(first + right + 1, hi)
    lo = lo // BLOCK_S * BLOCK_S
    all_lo = tl.cdiv(all_lo, BLOCK_S) * BLOCK_S
    all_hi = tl.maximum(all_hi // BLOCK_S * BLOCK_S, all_lo)
    if EVERY:
        all_hi = all_lo
    return lo, all_lo, all_hi, hi
