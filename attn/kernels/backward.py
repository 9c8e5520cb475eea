"""FlashAttention backward: every tile of weights is computed again.

Two kernels, so that one program adds up each element of a result: no atomics,
and the same bits each time. ``attention_dkdv`` owns a block of keys, and
walks over the queries of all heads that share them; ``attention_dq`` owns a
block of queries, and walks over the keys.

With the weights ``p``, the output's gradient ``do`` and
``delta = sum(out * do)`` of each row, ``dp = do @ v.T``,
``ds = p * (dp - delta)``, ``dq = ds @ k * scale``, ``dk = ds.T @ q * scale``
and ``dv = p.T @ do``. ``row_dots_kernel`` computes ``delta`` before them, for
which PyTorch would store three float32 copies of the output.
``attn.kernels.gradients`` launches them.

Source: Dao et al. 2022, algorithm 4 and appendix B.4; Dao 2023, section 3.1.
"""

from __future__ import annotations

import triton
import triton.language as tl

from attn.kernels.tile import (
    block_range,
    dot,
    load_numbers,
    load_rows,
    load_tile,
    packed_text,
    store_tile,
    tile_scores,
)

__all__ = ["attention_dkdv", "attention_dq", "row_dots_kernel"]


@triton.jit
def attention_dkdv(
    Q, K, V, GRAD_OUT, GRAD_K, GRAD_V, LSE, DELTA, MASK, VALID, OFFSETS,
    CU_Q, CU_K, scale, softcap, left, right, L, S, lse_b, lse_h,
    q_b, q_h, q_l, q_d, k_b, k_h, k_s, k_d, v_b, v_h, v_s, v_d,
    do_b, do_h, do_l, do_d, dk_b, dk_h, dk_s, dv_b, dv_h, dv_s,
    m_b, m_h, m_l, m_s,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    BANDED: tl.constexpr, MASK_KIND: tl.constexpr, HAS_VALID: tl.constexpr,
    HAS_SINKS: tl.constexpr, HAS_CAP: tl.constexpr, PRECISION: tl.constexpr,
    VARLEN: tl.constexpr,
    DESCRIPTORS: tl.constexpr,  # of Q, K, V and GRAD_OUT, not pointers
):  # fmt: skip
    """Compute the gradients of ``BLOCK_S`` keys and values."""
    b = tl.program_id(2).to(tl.int64)
    kv_head = tl.program_id(1).to(tl.int64)
    s0 = tl.program_id(0) * BLOCK_S
    q_offset = tl.load(OFFSETS + b).to(tl.int32)
    if VARLEN:  # texts are stored end to end: find this one
        q_start, L = packed_text(CU_Q, b)
        k_start, S = packed_text(CU_K, b)
        Q += q_start * q_l
        K += k_start * k_s
        V += k_start * v_s
        GRAD_OUT += q_start * do_l
        GRAD_K += k_start * dk_s
        GRAD_V += k_start * dv_s
        LSE += q_start
        DELTA += q_start
    if VARLEN and s0 >= S:
        return
    column = s0 + tl.arange(0, BLOCK_S)  # (s,)
    if not DESCRIPTORS:  # those are of all heads
        K += b * k_b + kv_head * k_h
        V += b * v_b + kv_head * v_h
    k = load_rows(
        K, b, kv_head, s0, column, S, k_s, k_d, D, BLOCK_D, DESCRIPTORS
    )
    v = load_rows(
        V, b, kv_head, s0, column, S, v_s, v_d, DV, BLOCK_DV, DESCRIPTORS
    )

    # As seen from the keys, right is before. The tail needs no mask: a row
    # beyond L has the weight exp2(-inf) = 0.
    last = tl.minimum(s0 + BLOCK_S, S) - 1 - q_offset
    bounds = block_range(
        s0 - q_offset, last, right, left, L, BLOCK_L, BANDED > 0, BANDED == 2,
        False, MASK_KIND > 0 or HAS_VALID,
    )  # fmt: skip
    dk = tl.zeros([BLOCK_S, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_S, BLOCK_DV], tl.float32)
    for member in range(GROUP):
        h = kv_head * GROUP + member
        of_head = b * lse_b + h * lse_h  # of LSE and DELTA, (B, H, rows)
        q_head, do_head = Q, GRAD_OUT
        if not DESCRIPTORS:
            q_head = Q + b * q_b + h * q_h
            do_head = GRAD_OUT + b * do_b + h * do_h
        for part in tl.static_range(3):  # the middle part needs no mask
            for l0 in tl.range(bounds[part], bounds[part + 1], BLOCK_L):
                row = l0 + tl.arange(0, BLOCK_L)  # (l,)
                q = load_rows(
                    q_head, b, h, l0, row, L, q_l, q_d, D, BLOCK_D,
                    DESCRIPTORS,
                )  # fmt: skip
                do = load_rows(
                    do_head, b, h, l0, row, L, do_l, do_d, DV, BLOCK_DV,
                    DESCRIPTORS,
                )  # fmt: skip
                lse = load_numbers(LSE + of_head, row, L, float("inf"), VARLEN)
                delta = load_numbers(DELTA + of_head, row, L, 0.0, VARLEN)
                scores, slope = tile_scores(
                    dot(k, tl.trans(q), PRECISION),  # (s, l)
                    row[None, :], column[:, None], L, S, q_offset, left,
                    right, scale, softcap, MASK + b * m_b + h * m_h, m_l,
                    m_s, VALID + b * S,
                    part != 1, BANDED, MASK_KIND, HAS_VALID, HAS_CAP,
                )  # fmt: skip
                p = tl.math.exp2(scores - lse[None, :])  # (s, l)
                dv += dot(p.to(do.dtype), do, PRECISION)
                dp = dot(v, tl.trans(do), PRECISION)  # (s, l)
                ds = p * (dp - delta[None, :])
                if HAS_CAP:
                    ds = ds * slope
                dk += dot(ds.to(q.dtype), q, PRECISION)
    GRAD_K += b * dk_b + kv_head * dk_h
    GRAD_V += b * dv_b + kv_head * dv_h
    store_tile(GRAD_K, dk * scale, column, S, dk_s, D, BLOCK_D)
    store_tile(GRAD_V, dv, column, S, dv_s, DV, BLOCK_DV)


@triton.jit
def attention_dq(
    Q, K, V, GRAD_OUT, GRAD_Q, LSE, DELTA, MASK, VALID, OFFSETS,
    CU_Q, CU_K, scale, softcap, left, right, L, S, lse_b, lse_h,
    q_b, q_h, q_l, q_d, k_b, k_h, k_s, k_d, v_b, v_h, v_s, v_d,
    do_b, do_h, do_l, do_d, dq_b, dq_h, dq_l, m_b, m_h, m_l, m_s,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    BANDED: tl.constexpr, MASK_KIND: tl.constexpr, HAS_VALID: tl.constexpr,
    HAS_SINKS: tl.constexpr, HAS_CAP: tl.constexpr, PRECISION: tl.constexpr,
    VARLEN: tl.constexpr,
    DESCRIPTORS: tl.constexpr,  # of Q, K, V and GRAD_OUT, not pointers
):  # fmt: skip
    """Compute the gradients of ``BLOCK_L`` queries of one head."""
    b = tl.program_id(2).to(tl.int64)
    h = tl.program_id(1).to(tl.int64)
    kv_head = h // GROUP
    block = tl.num_programs(0) - 1 - tl.program_id(0)  # the longest first
    q_offset = tl.load(OFFSETS + b).to(tl.int32)
    MASK += b * m_b + h * m_h
    if VARLEN:  # texts are stored end to end: find this one
        q_start, L = packed_text(CU_Q, b)
        k_start, S = packed_text(CU_K, b)
        Q += q_start * q_l
        K += k_start * k_s
        V += k_start * v_s
        GRAD_OUT += q_start * do_l
        GRAD_Q += q_start * dq_l
        LSE += q_start
        DELTA += q_start
    if VARLEN and block * BLOCK_L >= L:
        return
    if not DESCRIPTORS:  # those are of all heads
        Q += b * q_b + h * q_h
        K += b * k_b + kv_head * k_h
        V += b * v_b + kv_head * v_h
        GRAD_OUT += b * do_b + h * do_h
    l0 = block * BLOCK_L
    row = l0 + tl.arange(0, BLOCK_L)  # (l,)
    q = load_rows(Q, b, h, l0, row, L, q_l, q_d, D, BLOCK_D, DESCRIPTORS)
    do = load_rows(
        GRAD_OUT, b, h, l0, row, L, do_l, do_d, DV, BLOCK_DV, DESCRIPTORS
    )
    of_head = b * lse_b + h * lse_h  # of LSE and DELTA, (B, H, rows)
    lse = load_numbers(LSE + of_head, row, L, float("inf"), VARLEN)
    delta = load_numbers(DELTA + of_head, row, L, 0.0, VARLEN)

    first, last = l0 + q_offset, row + q_offset
    last = tl.max(tl.where(row < L, last, first), 0)
    bounds = block_range(
        first, last, left, right, S, BLOCK_S, BANDED == 2, BANDED > 0,
        True, MASK_KIND > 0 or HAS_VALID,
    )  # fmt: skip
    dq = tl.zeros([BLOCK_L, BLOCK_D], tl.float32)
    for part in tl.static_range(3):  # the middle part needs no mask
        for s0 in tl.range(bounds[part], bounds[part + 1], BLOCK_S):
            column = s0 + tl.arange(0, BLOCK_S)  # (s,)
            k = load_rows(
                K, b, kv_head, s0, column, S, k_s, k_d, D, BLOCK_D,
                DESCRIPTORS,
            )  # fmt: skip
            v = load_rows(
                V, b, kv_head, s0, column, S, v_s, v_d, DV, BLOCK_DV,
                DESCRIPTORS,
            )  # fmt: skip
            scores, slope = tile_scores(
                dot(q, tl.trans(k), PRECISION),  # (l, s)
                row[:, None], column[None, :], L, S, q_offset, left, right,
                scale, softcap, MASK, m_l, m_s, VALID + b * S,
                part != 1, BANDED, MASK_KIND, HAS_VALID, HAS_CAP,
            )  # fmt: skip
            dp = dot(do, tl.trans(v), PRECISION)  # (l, s)
            p = tl.math.exp2(scores - lse[:, None])
            ds = p * (dp - delta[:, None])
            if HAS_CAP:
                ds = ds * slope
            dq += dot(ds.to(k.dtype), k, PRECISION)
    GRAD_Q += b * dq_b + h * dq_h
    store_tile(GRAD_Q, dq * scale, row, L, dq_l, D, BLOCK_D)


@triton.jit
def row_dots_kernel(
    OUT, GRAD_OUT, DELTA, H, L,
    o_b, o_h, o_l, o_d, do_b, do_h, do_l, do_d,
    DV: tl.constexpr, BLOCK_L: tl.constexpr, BLOCK_DV: tl.constexpr,
):  # fmt: skip
    """Compute the dot products of ``BLOCK_L`` rows of one head."""
    b = tl.program_id(2).to(tl.int64)
    h = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)
    OUT += b * o_b + h * o_h
    GRAD_OUT += b * do_b + h * do_h
    out = load_tile(OUT, row, L, o_l, o_d, DV, BLOCK_DV)
    grad = load_tile(GRAD_OUT, row, L, do_l, do_d, DV, BLOCK_DV)
    delta = tl.sum(out.to(tl.float32) * grad.to(tl.float32), 1)
    tl.store(DELTA + (b * H + h) * L + row, delta, row < L)
