"""One tile of scores: the part that all kernels share.

A tile is a block of one head's queries against a block of keys. Its scores
are scaled, capped, biased and masked here, in the forward kernel as in the
backward ones, so that both mean the same thing. Everything is in base 2,
because GPUs have that exponential: ``exp(x) = exp2(x * log2(e))``.
"""

from __future__ import annotations

import os

import triton
import triton.language as tl

__all__ = [
    "INTERPRETED",
    "LOG2E",
    "apply_softcap",
    "block_range",
    "dot",
    "exp2_safe",
    "load_numbers",
    "load_rows",
    "load_tile",
    "log2_sum",
    "packed_text",
    "store_tile",
    "tile_scores",
]

INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") == "1"
_INTERPRETED: tl.constexpr = tl.constexpr(INTERPRETED)
LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def load_tile(X, row, L, x_l, x_d, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """Load rows of ``D`` elements, 0 beyond the tensor: ``(row, BLOCK_D)``."""
    d = tl.arange(0, BLOCK_D)
    ptrs = X + row[:, None].to(tl.int64) * x_l + d[None, :] * x_d
    inside = (row < L)[:, None]
    if D < BLOCK_D:
        inside = inside & (d < D)[None, :]
    return tl.load(ptrs, inside, 0.0)


@triton.jit
def load_rows(
    X, b, h, first, row, L, x_l, x_d, D: tl.constexpr, BLOCK_D: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Load the rows of a head from ``first`` on, 0 beyond the tensor.

    ``X`` points to the head, or is the descriptor of the whole tensor: then,
    on Hopper and newer GPUs, one instruction copies the tile (TMA).
    """
    if DESCRIPTORS:
        tile = X.load([b.to(tl.int32), h.to(tl.int32), first, 0])
        tile = tl.reshape(tile, [row.shape[0], BLOCK_D])
    else:
        tile = load_tile(X, row, L, x_l, x_d, D, BLOCK_D)
    return tile


@triton.jit
def load_numbers(X, row, L, beyond, MASKED: tl.constexpr):
    """Load one number of each row; with ``MASKED``, ``beyond`` after L."""
    inside = row < L if MASKED else None
    return tl.load(X + row, inside, beyond if MASKED else None)


@triton.jit
def packed_text(CU, b):
    """Return the start of one of several packed texts, and its length."""
    start = tl.load(CU + b).to(tl.int64)
    return start, (tl.load(CU + b + 1) - start).to(tl.int32)


@triton.jit
def store_tile(X, tile, row, L, x_l, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """Store what of a tile is inside the tensor, in the tensor's dtype."""
    d = tl.arange(0, BLOCK_D)
    ptrs = X + row[:, None].to(tl.int64) * x_l + d[None, :]
    mask = (row < L)[:, None] & (d < D)[None, :]
    tl.store(ptrs, tile.to(X.dtype.element_ty), mask)


@triton.jit
def dot(a, b, PRECISION: tl.constexpr):
    """Multiply matrices, accumulating in float32."""
    if _INTERPRETED:  # NumPy has no bfloat16, and multiplies the bits
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def exp2_safe(x, m):
    """Return ``2 ** (x - m)``, and 0 where both are minus infinity."""
    return tl.math.exp2(x - tl.where(m == float("-inf"), 0.0, m))


@triton.jit
def log2_sum(m_i, l_i):
    """Return ``m_i + log2(l_i)``; minus infinity in rows without a key."""
    log = tl.math.log2(tl.where(l_i > 0.0, l_i, 1.0))
    return tl.where(l_i > 0.0, m_i + log, m_i)


@triton.jit
def apply_softcap(scores, softcap):
    """Return ``softcap * tanh(scores / softcap)`` and its derivative."""
    x = scores / softcap
    t = tl.math.exp2(tl.abs(x) * (-2.0 * LOG2E))  # never above 1
    tanh = (1.0 - t) / (1.0 + t)
    tanh = tl.where(x < 0.0, -tanh, tanh)
    return softcap * tanh, 1.0 - tanh * tanh


@triton.jit
def tile_scores(
    product, row, column, L, S, q_offset, left, right, scale, softcap,
    MASK, m_l, m_s, VALID,
    MASKED: tl.constexpr,  # whether a pair of this tile may be masked out
    BANDED: tl.constexpr, MASK_KIND: tl.constexpr, HAS_VALID: tl.constexpr,
    HAS_CAP: tl.constexpr,
    SCALED: tl.constexpr = True,  # whether to scale, without a cap or a bias
):  # fmt: skip
    """Return the scores, in base 2, of dot products, and the cap's slope.

    ``row`` and ``column`` broadcast to the tile: ``(l, 1)`` and ``(1, s)``,
    or transposed. A query at position ``row + q_offset`` attends to ``left``
    keys before that position and ``right`` keys after it.
    """
    if HAS_CAP:
        scores, slope = apply_softcap(product * scale, softcap)
        scores = scores * LOG2E
    else:
        scores = product
        if SCALED:  # once an element: these multiplications take time
            scores = scores * (scale * LOG2E)
        slope = scores
    if MASKED:
        allowed = (row < L) & (column < S)
        if MASK_KIND > 0:
            ptrs = MASK + row.to(tl.int64) * m_l + column.to(tl.int64) * m_s
            mask = tl.load(ptrs, allowed, 0)
            if MASK_KIND == 1:
                allowed = allowed & (mask != 0)
            else:
                scores += mask.to(tl.float32) * LOG2E
        if BANDED > 0:
            distance = column - (row + q_offset)
            allowed = allowed & (distance <= right)
            if BANDED == 2:
                allowed = allowed & (distance >= -left)
        if HAS_VALID:
            allowed = allowed & (tl.load(VALID + column, column < S, 0) != 0)
        scores = tl.where(allowed, scores, float("-inf"))
    return scores, slope


@triton.jit
def block_range(
    first, last, before, after, length, BLOCK: tl.constexpr,
    HAS_BEFORE: tl.constexpr, HAS_AFTER: tl.constexpr,
    MASK_TAIL: tl.constexpr, MASK_ALL: tl.constexpr,
):  # fmt: skip
    """Return the bounds of three runs of blocks: masked, full, masked.

    The positions ``first`` to ``last`` attend to ``before`` and ``after``
    neighbours. Blocks outside the bounds are skipped; in a full block no
    pair is masked out. With ``MASK_ALL`` no block counts as full; with
    ``MASK_TAIL`` one that exceeds ``length`` does not.
    """
    lo, hi, full_lo, full_hi = 0, length, 0, length
    if HAS_AFTER:
        hi = tl.minimum(last + after + 1, length)
        full_hi = tl.minimum(first + after + 1, hi)
    if HAS_BEFORE:
        lo = tl.minimum(tl.maximum(first - before, 0), length) // BLOCK * BLOCK
        full_lo = tl.minimum(tl.maximum(last - before, 0), hi)
        full_lo = tl.cdiv(full_lo, BLOCK) * BLOCK
    if HAS_AFTER or MASK_TAIL:
        full_hi = tl.maximum(full_hi // BLOCK * BLOCK, full_lo)
    if MASK_ALL:  # equal bounds: the compiler leaves the loops out
        full_lo, full_hi = lo, lo
    return lo, full_lo, full_hi, hi
