"""FlashAttention forward: each program computes a block of rows of the output.

A program holds its queries, and walks over the keys a block at a time. It
keeps three things for each row: the largest score so far, the sum of the
weights so far, and the output so far; all are corrected when a larger score
turns up. Scores live in registers and are never written down.

Source: Dao et al. 2022 and 2023; Milakov and Gimelshein 2018.
"""

from __future__ import annotations

import triton
import triton.language as tl

from attn.kernels.tile import (
    LOG2E,
    dot,
    exp2_safe,
    keys_of_rows,
    tile_scores,
)

__all__ = ["attention_forward"]


@triton.jit
def attention_forward(
    Q, K, V, OUT, LSE,  # tensors; LSE is (B, H, L), in natural units
    MASK, VALID, SINKS, OFFSETS, CU_Q, CU_K,  # tensors that may be missing
    scale, softcap, left, right, H, L, S,
    q_b, q_h, q_l, q_d, k_b, k_h, k_s, k_d,  # strides
    v_b, v_h, v_s, v_d, o_b, o_h, o_l, m_b, m_h, m_l, m_s, lse_b, lse_h,
    GROUP: tl.constexpr,  # query heads for each key head
    D: tl.constexpr, DV: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,  # powers of 2, >= D and DV
    BANDED: tl.constexpr,  # 0: all keys, 1: right counts, 2: left too
    MASK_KIND: tl.constexpr,  # 0: none, 1: booleans, 2: numbers
    HAS_VALID: tl.constexpr, HAS_SINKS: tl.constexpr, HAS_CAP: tl.constexpr,
    VARLEN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``OUT = softmax(Q @ K.T * scale …) @ V`` for ``BLOCK_L`` rows."""
    b = tl.program_id(2).to(tl.int64)
    h = tl.program_id(1).to(tl.int64)
    kv_head = h // GROUP
    if VARLEN:  # sequences lie end to end: find this one
        q_start = tl.load(CU_Q + b).to(tl.int64)
        k_start = tl.load(CU_K + b).to(tl.int64)
        L = (tl.load(CU_Q + b + 1) - q_start).to(tl.int32)
        S = (tl.load(CU_K + b + 1) - k_start).to(tl.int32)
        Q += q_start * q_l
        K += k_start * k_s
        V += k_start * v_s
        OUT += q_start * o_l
        LSE += q_start
    # Under a causal mask the last rows have the most keys: they go first.
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    if block * BLOCK_L >= L:
        return
    q_offset = tl.load(OFFSETS + b).to(tl.int32)
    Q += b * q_b + h * q_h
    K += b * k_b + kv_head * k_h
    V += b * v_b + kv_head * v_h
    OUT += b * o_b + h * o_h
    LSE += b * lse_b + h * lse_h
    MASK += b * m_b + h * m_h
    VALID += b * S

    row = block * BLOCK_L + tl.arange(0, BLOCK_L)  # (l,)
    d, dv = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    q = tl.load(
        Q + row[:, None].to(tl.int64) * q_l + d[None, :] * q_d,
        mask=(row < L)[:, None] & (d < D)[None, :],
        other=0.0,
    )  # (l, D)

    # Which keys can any of these rows see, and which can all of them?
    first, last = block * BLOCK_L + q_offset, row + q_offset
    last = tl.max(tl.where(row < L, last, first), 0)  # positions of the rows
    lo, all_lo, all_hi, hi = keys_of_rows(
        first, last, left, right, S, BLOCK_S, BANDED,
        MASK_KIND > 0 or HAS_VALID,
    )  # fmt: skip

    top = tl.full([BLOCK_L], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_L], tl.float32)
    out = tl.zeros([BLOCK_L, BLOCK_DV], tl.float32)
    # The edges need a mask, and the keys between them do not.
    for part in tl.static_range(3):
        start, end = lo, lo  # the compiler leaves out what never runs
        if part == 0 and BANDED == 2:
            end = tl.minimum(all_lo, hi)
        elif part == 1 and MASK_KIND == 0 and not HAS_VALID:
            start, end = all_lo, all_hi
        elif part == 2:
            start, end = all_hi, hi
        for s0 in tl.range(start, end, BLOCK_S):
            column = s0 + tl.arange(0, BLOCK_S)  # (s,)
            inside = column < S
            k = tl.load(
                K + column[:, None].to(tl.int64) * k_s + d[None, :] * k_d,
                mask=inside[:, None] & (d < D)[None, :],
                other=0.0,
            )  # (s, D)
            scores, _ = tile_scores(
                dot(q, tl.trans(k), PRECISION),  # (l, s)
                row[:, None], column[None, :], L, S, q_offset, left, right,
                scale, softcap, MASK, m_l, m_s, VALID,
                part != 1, BANDED, MASK_KIND, HAS_VALID, HAS_CAP,
            )  # fmt: skip
            # The online softmax: what was seen fades to the new top.
            higher = tl.maximum(top, tl.max(scores, 1))
            weights = exp2_safe(scores, higher[:, None])
            fade = exp2_safe(top, higher)
            v = tl.load(
                V + column[:, None].to(tl.int64) * v_s + dv[None, :] * v_d,
                mask=inside[:, None] & (dv < DV)[None, :],
                other=0.0,
            )  # (s, Dv)
            total = total * fade + tl.sum(weights, 1)
            out = out * fade[:, None] + dot(weights.to(v.dtype), v, PRECISION)
            top = higher

    seen = total > 0.0
    lse = tl.where(seen, top + tl.math.log2(tl.where(seen, total, 1.0)), top)
    if HAS_SINKS:  # one more score, without a value
        sink = tl.load(SINKS + h).to(tl.float32) * LOG2E
        total += tl.math.exp2(sink - tl.where(seen, top, sink))
    out = out / tl.where(total > 0.0, total, 1.0)[:, None]
    tl.store(
        OUT + row[:, None].to(tl.int64) * o_l + dv[None, :],
        out.to(OUT.dtype.element_ty),
        mask=(row < L)[:, None] & (dv < DV)[None, :],
    )
    tl.store(LSE + row, lse / LOG2E, mask=row < L)
