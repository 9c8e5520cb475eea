"""FlashAttention backward: every tile of weights is computed again.

Two kernels, so that each number of a result has one program that adds it up:
no atomics, and the same bits each time. ``attention_dkdv`` owns a block of
keys, and walks over the queries of all heads that share them;
``attention_dq`` owns a block of queries, and walks over the keys.

With ``p`` the weights, ``g`` the gradient of the output, and ``delta`` what a
row loses to the others when one of its scores grows, ``sum(out * g)``:
``dv = p.T @ g``, ``ds = p * (g @ v.T - delta)``, ``dq = ds @ k * scale``,
``dk = ds.T @ q * scale``.

Source: Dao et al. 2022, algorithm 4; Dao 2023, section 3.1.
"""

from __future__ import annotations

import triton
import triton.language as tl

from attn.kernels.tile import LOG2E, dot, keys_of_rows, tile_scores

__all__ = ["attention_dkdv", "attention_dq"]


@triton.jit
def attention_dkdv(
    Q, K, V, G, DK, DV_, WHOLE, DELTA, MASK, VALID, OFFSETS,
    scale, softcap, left, right, H, L, S,
    q_b, q_h, q_l, q_d, k_b, k_h, k_s, k_d, v_b, v_h, v_s, v_d,
    g_b, g_h, g_l, g_d, dk_b, dk_h, dk_s, dv_b, dv_h, dv_s,
    m_b, m_h, m_l, m_s,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    BANDED: tl.constexpr, MASK_KIND: tl.constexpr, HAS_VALID: tl.constexpr,
    HAS_SINKS: tl.constexpr, HAS_CAP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of ``BLOCK_S`` keys and values, from all their queries."""
    b = tl.program_id(2).to(tl.int64)
    kv_head = tl.program_id(1).to(tl.int64)
    s0 = tl.program_id(0) * BLOCK_S
    q_offset = tl.load(OFFSETS + b).to(tl.int32)
    column = s0 + tl.arange(0, BLOCK_S)  # (s,)
    d, dv = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    real_k = (column < S)[:, None] & (d < D)[None, :]
    real_v = (column < S)[:, None] & (dv < DV)[None, :]
    far = column[:, None].to(tl.int64)
    K += b * k_b + kv_head * k_h
    V += b * v_b + kv_head * v_h
    k = tl.load(K + far * k_s + d[None, :] * k_d, mask=real_k, other=0.0)
    v = tl.load(V + far * v_s + dv[None, :] * v_d, mask=real_v, other=0.0)

    # Which queries can see any of these keys, and which see all of them? (A
    # query behind the last one weighs nothing, masked or not.)
    EVERY: tl.constexpr = MASK_KIND > 0 or HAS_VALID
    lo, hi, all_lo, all_hi = 0, L, 0, L
    if BANDED > 0:
        end = tl.minimum(s0 + BLOCK_S, S) - 1
        lo = tl.minimum(tl.maximum(s0 - right - q_offset, 0), L)
        all_lo = tl.maximum(end - right - q_offset, lo)
    if BANDED == 2:
        hi = tl.maximum(tl.minimum(end + left - q_offset + 1, L), lo)
        all_hi = tl.minimum(s0 + left - q_offset + 1, hi)
        all_hi = all_hi // BLOCK_L * BLOCK_L
    lo = lo // BLOCK_L * BLOCK_L
    all_lo = tl.cdiv(all_lo, BLOCK_L) * BLOCK_L
    if EVERY:
        all_lo = hi
    all_hi = tl.maximum(all_hi, all_lo)

    dk = tl.zeros([BLOCK_S, BLOCK_D], tl.float32)
    dv_sum = tl.zeros([BLOCK_S, BLOCK_DV], tl.float32)
    for member in range(GROUP):
        h = kv_head * GROUP + member
        of_head = (b * H + h) * L  # WHOLE and DELTA are (B, H, L)
        for part in tl.static_range(3):
            start, stop = lo, lo  # the compiler leaves out what never runs
            if part == 0 and (BANDED > 0 or EVERY):
                stop = tl.minimum(all_lo, hi)
            elif part == 1 and not EVERY:
                start, stop = all_lo, all_hi
            elif part == 2 and BANDED == 2 and not EVERY:
                start, stop = all_hi, hi
            for l0 in tl.range(start, stop, BLOCK_L):
                row = l0 + tl.arange(0, BLOCK_L)  # (l,)
                inside = row < L
                wide = row[:, None].to(tl.int64)
                q = tl.load(
                    Q + b * q_b + h * q_h + wide * q_l + d[None, :] * q_d,
                    mask=inside[:, None] & (d < D)[None, :],
                    other=0.0,
                )  # (l, D)
                g = tl.load(
                    G + b * g_b + h * g_h + wide * g_l + dv[None, :] * g_d,
                    mask=inside[:, None] & (dv < DV)[None, :],
                    other=0.0,
                )  # (l, Dv)
                # A row that is not there weighs exp2(-inf) = 0.
                whole = tl.load(
                    WHOLE + of_head + row, mask=inside, other=float("inf")
                )
                delta = tl.load(DELTA + of_head + row, mask=inside, other=0.0)
                scores, slope = tile_scores(
                    dot(k, tl.trans(q), PRECISION),  # (s, l)
                    row[None, :], column[:, None], L, S, q_offset, left,
                    right, scale, softcap, MASK + b * m_b + h * m_h, m_l,
                    m_s, VALID + b * S,
                    part != 1, BANDED, MASK_KIND, HAS_VALID, HAS_CAP,
                )  # fmt: skip
                p = tl.math.exp2(scores - (whole * LOG2E)[None, :])  # (s, l)
                dv_sum += dot(p.to(g.dtype), g, PRECISION)
                gained = dot(v, tl.trans(g), PRECISION)  # (s, l)
                ds = p * (gained - delta[None, :])
                if HAS_CAP:
                    ds = ds * slope
                dk += dot(ds.to(q.dtype), q, PRECISION)
    tl.store(
        DK + b * dk_b + kv_head * dk_h + far * dk_s + d[None, :],
        (dk * scale).to(DK.dtype.element_ty),
        mask=real_k,
    )
    tl.store(
        DV_ + b * dv_b + kv_head * dv_h + far * dv_s + dv[None, :],
        dv_sum.to(DV_.dtype.element_ty),
        mask=real_v,
    )


@triton.jit
def attention_dq(
    Q, K, V, G, DQ, WHOLE, DELTA, MASK, VALID, OFFSETS,
    scale, softcap, left, right, H, L, S,
    q_b, q_h, q_l, q_d, k_b, k_h, k_s, k_d, v_b, v_h, v_s, v_d,
    g_b, g_h, g_l, g_d, dq_b, dq_h, dq_l, m_b, m_h, m_l, m_s,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    BANDED: tl.constexpr, MASK_KIND: tl.constexpr, HAS_VALID: tl.constexpr,
    HAS_SINKS: tl.constexpr, HAS_CAP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of ``BLOCK_L`` queries of one head."""
    b = tl.program_id(2).to(tl.int64)
    h = tl.program_id(1).to(tl.int64)
    kv_head = h // GROUP
    block = tl.num_programs(0) - 1 - tl.program_id(0)  # the longest first
    q_offset = tl.load(OFFSETS + b).to(tl.int32)
    row = block * BLOCK_L + tl.arange(0, BLOCK_L)  # (l,)
    d, dv = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    inside = row < L
    wide = row[:, None].to(tl.int64)
    q = tl.load(
        Q + b * q_b + h * q_h + wide * q_l + d[None, :] * q_d,
        mask=inside[:, None] & (d < D)[None, :],
        other=0.0,
    )
    g = tl.load(
        G + b * g_b + h * g_h + wide * g_l + dv[None, :] * g_d,
        mask=inside[:, None] & (dv < DV)[None, :],
        other=0.0,
    )
    of_head = (b * H + h) * L
    whole = tl.load(WHOLE + of_head + row, mask=inside, other=float("inf"))
    delta = tl.load(DELTA + of_head + row, mask=inside, other=0.0)
    K += b * k_b + kv_head * k_h
    V += b * v_b + kv_head * v_h
    first, last = block * BLOCK_L + q_offset, row + q_offset
    last = tl.max(tl.where(inside, last, first), 0)
    lo, all_lo, all_hi, hi = keys_of_rows(
        first, last, left, right, S, BLOCK_S, BANDED,
        MASK_KIND > 0 or HAS_VALID,
    )  # fmt: skip

    dq = tl.zeros([BLOCK_L, BLOCK_D], tl.float32)
    for part in tl.static_range(3):
        start, stop = lo, lo  # the compiler leaves out what never runs
        if part == 0 and BANDED == 2:
            stop = tl.minimum(all_lo, hi)
        elif part == 1 and MASK_KIND == 0 and not HAS_VALID:
            start, stop = all_lo, all_hi
        elif part == 2:
            start, stop = all_hi, hi
        for s0 in tl.range(start, stop, BLOCK_S):
            column = s0 + tl.arange(0, BLOCK_S)  # (s,)
            real = (column < S)[:, None]
            far = column[:, None].to(tl.int64)
            k = tl.load(
                K + far * k_s + d[None, :] * k_d,
                mask=real & (d < D)[None, :],
                other=0.0,
            )
            v = tl.load(
                V + far * v_s + dv[None, :] * v_d,
                mask=real & (dv < DV)[None, :],
                other=0.0,
            )
            scores, slope = tile_scores(
                dot(q, tl.trans(k), PRECISION),  # (l, s)
                row[:, None], column[None, :], L, S, q_offset, left, right,
                scale, softcap, MASK + b * m_b + h * m_h, m_l, m_s,
                VALID + b * S,
                part != 1, BANDED, MASK_KIND, HAS_VALID, HAS_CAP,
            )  # fmt: skip
            p = tl.math.exp2(scores - (whole * LOG2E)[:, None])
            gained = dot(g, tl.trans(v), PRECISION)  # (l, s)
            ds = p * (gained - delta[:, None])
            if HAS_CAP:
                ds = ds * slope
            dq += dot(ds.to(k.dtype), k, PRECISION)
    tl.store(
        DQ + b * dq_b + h * dq_h + wide * dq_l + d[None, :],
        (dq * scale).to(DQ.dtype.element_ty),
        mask=inside[:, None] & (d < D)[None, :],
    )
