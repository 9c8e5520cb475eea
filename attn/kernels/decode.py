"""Decoding: few queries, many keys, split over the GPU.

A single new token gives a GPU one row of work for each head, too little to
fill it. So the keys are split: each program takes one chunk of the keys of
one key head, with all query heads that share them as the rows of its tile
(every key is read once), and stores a partial result. A second kernel merges
the partial results, by the same law as ``attn.merge_states``.

Source: Dao et al. 2023, "Flash-Decoding".
"""

from __future__ import annotations

import triton
import triton.language as tl

from attn.kernels.tile import (
    LOG2E,
    dot,
    exp2_safe,
    load_tile,
    log2_sum,
    tile_scores,
)

__all__ = ["decode_split", "merge_splits"]


@triton.jit
def decode_split(
    Q, K, V, PART, PART_LSE,  # PART is (B, Hkv, splits, rows, Dv), float32
    LENGTHS,  # keys of each sequence, (B,)
    scale, softcap, left, right, kv_chunk_size, L,
    q_b, q_h, q_l, q_d, k_b, k_h, k_s, k_d, v_b, v_h, v_s, v_d,
    GROUP: tl.constexpr, ROWS: tl.constexpr,  # rows >= GROUP * L, power of 2
    D: tl.constexpr, DV: tl.constexpr, BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    BANDED: tl.constexpr, MASK_KIND: tl.constexpr, HAS_VALID: tl.constexpr,
    HAS_SINKS: tl.constexpr, HAS_CAP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute attention of ``GROUP * L`` rows over one chunk of the keys."""
    split = tl.program_id(0)
    kv_head = tl.program_id(1).to(tl.int64)
    b = tl.program_id(2).to(tl.int64)
    length = tl.load(LENGTHS + b).to(tl.int32)
    K += b * k_b + kv_head * k_h
    V += b * v_b + kv_head * v_h
    r = tl.arange(0, ROWS)  # row r is query r % L of head r // L
    d, dv = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    real = (r < GROUP * L)[:, None]
    h = kv_head * GROUP + r // L
    ptrs = Q + b * q_b + h * q_h + (r % L).to(tl.int64) * q_l
    ptrs = ptrs[:, None] + d[None, :] * q_d
    q = tl.load(ptrs, real & (d < D)[None, :], 0.0)  # (rows, D)
    q_offset = length - L  # the queries are the last tokens

    lo = split * kv_chunk_size
    hi = tl.minimum(lo + kv_chunk_size, length)
    if BANDED == 2:  # skip the blocks before the first query's window
        lo = tl.maximum(lo, (q_offset - left) // BLOCK_S * BLOCK_S)
    m_i = tl.full([ROWS], float("-inf"), tl.float32)
    l_i = tl.zeros([ROWS], tl.float32)
    out = tl.zeros([ROWS, BLOCK_DV], tl.float32)
    for s0 in tl.range(lo, hi, BLOCK_S):
        column = s0 + tl.arange(0, BLOCK_S)  # (s,)
        k = load_tile(K, column, hi, k_s, k_d, D, BLOCK_D)  # (s, D)
        v = load_tile(V, column, hi, v_s, v_d, DV, BLOCK_DV)  # (s, Dv)
        scores, _ = tile_scores(
            dot(q, tl.trans(k), PRECISION),  # (rows, s)
            (r % L)[:, None], column[None, :], L, hi, q_offset, left, right,
            scale, softcap, Q, 0, 0, Q,
            True, BANDED, MASK_KIND, HAS_VALID, HAS_CAP,
        )  # fmt: skip
        m_new = tl.maximum(m_i, tl.max(scores, 1))
        p = exp2_safe(scores, m_new[:, None])
        alpha = exp2_safe(m_i, m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        out = out * alpha[:, None] + dot(p.to(v.dtype), v, PRECISION)
        m_i = m_new
    out = out / tl.where(l_i > 0.0, l_i, 1.0)[:, None]
    part = (b * tl.num_programs(1) + kv_head) * tl.num_programs(0) + split
    ptrs = PART + (part * ROWS + r)[:, None] * DV + dv[None, :]
    tl.store(ptrs, out, (dv < DV)[None, :] & real)
    lse = log2_sum(m_i, l_i) / LOG2E
    tl.store(PART_LSE + part * ROWS + r, lse, r < GROUP * L)


@triton.jit
def merge_splits(
    PART, PART_LSE, SINKS, OUT, LSE, splits, L,
    o_b, o_h, o_l, lse_b, lse_h,
    GROUP: tl.constexpr, ROWS: tl.constexpr, DV: tl.constexpr,
    BLOCK_DV: tl.constexpr, BLOCK_N: tl.constexpr,  # >= splits
    HAS_SINKS: tl.constexpr,
):  # fmt: skip
    """Merge the partial results of one row, weighted by their sums."""
    r = tl.program_id(0)
    kv_head = tl.program_id(1).to(tl.int64)
    b = tl.program_id(2).to(tl.int64)
    h = kv_head * GROUP + r // L
    n, dv = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_DV)
    rows = ((b * tl.num_programs(1) + kv_head) * splits + n) * ROWS + r
    lse = tl.load(PART_LSE + rows, n < splits, float("-inf")) * LOG2E
    m = tl.max(lse, 0)
    p = exp2_safe(lse, m)  # (splits,)
    total = tl.sum(p, 0)
    lse = log2_sum(m, total) / LOG2E
    tl.store(LSE + b * lse_b + h * lse_h + r % L, lse)
    if HAS_SINKS:  # once, after all parts are merged
        sink = tl.load(SINKS + h).to(tl.float32) * LOG2E
        total += tl.math.exp2(sink - tl.where(total > 0.0, m, sink))
    ptrs = PART + rows[:, None] * DV + dv[None, :]
    part = tl.load(ptrs, (n < splits)[:, None] & (dv < DV)[None, :], 0.0)
    out = tl.sum(part * p[:, None], 0) / tl.where(total > 0.0, total, 1.0)
    ptrs = OUT + b * o_b + h * o_h + (r % L).to(tl.int64) * o_l + dv
    tl.store(ptrs, out.to(OUT.dtype.element_ty), dv < DV)
