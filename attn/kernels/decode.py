"""Decoding: few queries, many keys, split over the machine.

A single new token gives a GPU one row of work for each head, too little to
fill it. So the keys are split: each program takes one stretch of the keys of
one key head, with all query heads that share them as the rows of its tile
(every key is read once), and leaves a partial result. A second kernel merges
the parts, by the same law as ``attn.merge_states``.

Source: Dao et al. 2023, "Flash-Decoding".
"""

from __future__ import annotations

import triton
import triton.language as tl

from attn.kernels.tile import LOG2E, capped, dot, exp2_safe

__all__ = ["decode_split", "merge_splits"]


@triton.jit
def decode_split(
    Q, K, V, PART, PART_LSE,  # PART is (B, Hkv, splits, rows, Dv), float32
    LENGTHS,  # keys of each sequence, (B,)
    scale, softcap, left, stretch, L,
    q_b, q_h, q_l, q_d, k_b, k_h, k_s, k_d, v_b, v_h, v_s, v_d,
    GROUP: tl.constexpr, ROWS: tl.constexpr,  # rows >= GROUP * L, power of 2
    D: tl.constexpr, DV: tl.constexpr, BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, HAS_CAP: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Attention of ``GROUP * L`` rows over ``stretch`` keys."""
    split = tl.program_id(0)
    kv_head = tl.program_id(1).to(tl.int64)
    b = tl.program_id(2).to(tl.int64)
    length = tl.load(LENGTHS + b).to(tl.int32)
    r = tl.arange(0, ROWS)  # row r is query r % L of head r // L
    d, dv = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    real = r < GROUP * L
    h = kv_head * GROUP + r // L
    q = tl.load(
        Q
        + b * q_b
        + h[:, None] * q_h
        + (r % L)[:, None].to(tl.int64) * q_l
        + d[None, :] * q_d,
        mask=real[:, None] & (d < D)[None, :],
        other=0.0,
    )  # (rows, D)
    # The queries are the last tokens of their sequence.
    position = length - L + r % L

    lo, hi = split * stretch, tl.minimum((split + 1) * stretch, length)
    if WINDOWED:  # nobody sees what is before the first query's window
        lo = tl.maximum(lo, (length - L - left) // BLOCK_S * BLOCK_S)
    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    out = tl.zeros([ROWS, BLOCK_DV], tl.float32)
    for s0 in tl.range(lo, hi, BLOCK_S):
        column = s0 + tl.arange(0, BLOCK_S)  # (s,)
        inside = (column < hi)[:, None]
        far = column[:, None].to(tl.int64)
        k = tl.load(
            K + b * k_b + kv_head * k_h + far * k_s + d[None, :] * k_d,
            mask=inside & (d < D)[None, :],
            other=0.0,
        )  # (s, D)
        v = tl.load(
            V + b * v_b + kv_head * v_h + far * v_s + dv[None, :] * v_d,
            mask=inside & (dv < DV)[None, :],
            other=0.0,
        )  # (s, Dv)
        scores = dot(q, tl.trans(k), PRECISION) * scale  # (rows, s)
        if HAS_CAP:
            scores, _ = capped(scores, softcap)
        allowed = (column < hi)[None, :] & real[:, None]
        if CAUSAL:
            allowed = allowed & (column[None, :] <= position[:, None])
        if WINDOWED:
            allowed = allowed & (column[None, :] >= position[:, None] - left)
        scores = tl.where(allowed, scores * LOG2E, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = exp2_safe(scores, higher[:, None])
        fade = exp2_safe(top, higher)
        total = total * fade + tl.sum(weights, 1)
        out = out * fade[:, None] + dot(weights.to(v.dtype), v, PRECISION)
        top = higher
    seen = total > 0.0
    out = out / tl.where(seen, total, 1.0)[:, None]
    lse = tl.where(seen, top + tl.math.log2(tl.where(seen, total, 1.0)), top)
    part = (b * tl.num_programs(1) + kv_head) * tl.num_programs(0) + split
    tl.store(
        PART + (part * ROWS + r)[:, None] * DV + dv[None, :],
        out,
        mask=(dv < DV)[None, :] & real[:, None],
    )
    tl.store(PART_LSE + part * ROWS + r, lse / LOG2E, mask=real)


@triton.jit
def merge_splits(
    PART, PART_LSE, SINKS, OUT, LSE, splits, L,
    o_b, o_h, o_l, lse_b, lse_h,
    GROUP: tl.constexpr, ROWS: tl.constexpr, DV: tl.constexpr,
    BLOCK_DV: tl.constexpr, BLOCK_N: tl.constexpr,  # >= splits
    HAS_SINKS: tl.constexpr,
):  # fmt: skip
    """One row: the parts, each by its share of the whole denominator."""
    r = tl.program_id(0)
    kv_head = tl.program_id(1).to(tl.int64)
    b = tl.program_id(2).to(tl.int64)
    n, dv = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_DV)
    there = n < splits
    place = ((b * tl.num_programs(1) + kv_head) * splits + n) * ROWS + r
    lse = tl.load(PART_LSE + place, mask=there, other=float("-inf")) * LOG2E
    top = tl.max(lse, 0)
    share = exp2_safe(lse, top)  # (splits,)
    total = tl.sum(share, 0)
    whole = total
    h = kv_head * GROUP + r // L
    if HAS_SINKS:  # once, after all is merged
        sink = tl.load(SINKS + h).to(tl.float32) * LOG2E
        whole += tl.math.exp2(sink - tl.where(total > 0.0, top, sink))
    part = tl.load(
        PART + place[:, None] * DV + dv[None, :],
        mask=there[:, None] & (dv < DV)[None, :],
        other=0.0,
    )  # (splits, Dv)
    out = tl.sum(part * share[:, None], 0) / tl.where(whole > 0.0, whole, 1.0)
    tl.store(
        OUT + b * o_b + h * o_h + (r % L).to(tl.int64) * o_l + dv,
        out.to(OUT.dtype.element_ty),
        mask=dv < DV,
    )
    seen = total > 0.0
    log = tl.math.log2(tl.where(seen, total, 1.0))
    lse = tl.where(seen, (top + log) / LOG2E, float("-inf"))
    tl.store(LSE + b * lse_b + h * lse_h + r % L, lse)
