"""Linear attention with decay: one program walks along a whole sequence.

A program has one head, and a block of its value's columns. It keeps the state
of these, ``(D, BLOCK_DV)``, in registers, and takes ``BLOCK_L`` tokens at a
time, in four matrix products: scores, scores times values, queries times the
state, and keys times values, which are added to it. The scores of a chunk
never leave the chip, and no state but the last is written.

There are ``B * H * Dv / BLOCK_DV`` programs: enough for a GPU when it trains
on many rows, too few for one long row. There, chunks would have to write
their states first, for others to start from, as flash-linear-attention does.

Source: Yang et al. 2023, "Gated Linear Attention", section 3 and algorithm 1.
"""

from __future__ import annotations

import triton
import triton.language as tl

from attn.kernels.tile import LOG2E, dot, load_tile

__all__ = ["linear_chunks"]

LEAST: tl.constexpr = tl.constexpr(-150.0)  # 2 ** LEAST is 0 in float32


@triton.jit
def linear_chunks(
    Q, K, V, G, OUT, START, LAST,  # the last two are (B, H, D, Dv), float32
    scale, L,
    q_b, q_h, q_l, q_d, k_b, k_h, k_l, k_d,  # strides
    v_b, v_h, v_l, v_d, g_b, g_h, g_l, o_b, o_h, o_l,
    GROUP: tl.constexpr,  # value heads per key head
    D: tl.constexpr, DV: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    HAS_START: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute a block of columns of ``OUT``, and of the state after it."""
    b = tl.program_id(2).to(tl.int64)
    h = tl.program_id(1).to(tl.int64)
    e = tl.program_id(0) * BLOCK_DV + tl.arange(0, BLOCK_DV)  # columns
    d = tl.arange(0, BLOCK_D)
    q_head = Q + b * q_b + h // GROUP * q_h
    k_head = K + b * k_b + h // GROUP * k_h
    v_head = V + b * v_b + h * v_h
    g_head = G + b * g_b + h * g_h
    out_head = OUT + b * o_b + h * o_h
    head = (b * tl.num_programs(1) + h) * D * DV
    state_at = head + d[:, None] * DV + e[None, :]
    inside = (d < D)[:, None] & (e < DV)[None, :]
    state = tl.zeros([BLOCK_D, BLOCK_DV], tl.float32)
    if HAS_START:
        state = tl.load(START + state_at, inside, 0.0)

    i = tl.arange(0, BLOCK_L)
    past = i[:, None] >= i[None, :]
    for first in tl.range(0, L, BLOCK_L):
        row = first + i  # (l,); beyond the end are keys of 0 and no decay
        q = load_tile(q_head, row, L, q_l, q_d, D, BLOCK_D)
        k = load_tile(k_head, row, L, k_l, k_d, D, BLOCK_D)
        cell = (row < L)[:, None] & (e < DV)[None, :]
        at = row[:, None].to(tl.int64) * v_l + e[None, :] * v_d
        v = tl.load(v_head + at, cell, 0.0)
        g = tl.load(g_head + row.to(tl.int64) * g_l, row < L, 0.0) * LOG2E
        g = tl.maximum(g, LEAST)  # minus infinity would leave NaN

        # What is left at token i of what token j wrote, and of the state
        # before. The mask is set before the exponential: above the diagonal,
        # it would overflow.
        total = tl.cumsum(g, 0)  # (l,)
        decay = tl.where(past, total[:, None] - total[None, :], float("-inf"))
        scores = dot(q, tl.trans(k), PRECISION) * tl.math.exp2(decay)
        since = tl.math.exp2(total)
        out = dot(q, state.to(q.dtype), PRECISION) * since[:, None]
        out += dot(scores.to(v.dtype), v, PRECISION)
        at = row[:, None].to(tl.int64) * o_l + e[None, :]
        tl.store(out_head + at, (out * scale).to(v.dtype), cell)

        end = tl.sum(g, 0)
        until = tl.math.exp2(end - total)  # of what each token wrote
        left = (k * until[:, None]).to(k.dtype)
        state = state * tl.math.exp2(end)
        state += dot(tl.trans(left), v, PRECISION)
    tl.store(LAST + state_at, state, inside)
