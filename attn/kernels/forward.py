"""FlashAttention forward: each program computes a block of rows of the output.

A program loads its queries, and walks over the keys a block at a time. It
keeps three things for each row: the largest score ``m_i``, the sum of the
weights ``l_i`` and the output, all so far; a larger score rescales them.
Scores stay in registers and are never written to memory.

There are two variants (``configs.VARIANTS``): tiles are loaded by tensor
descriptors, and a program of a persistent grid computes one block after the
other, where otherwise its loop has one turn.

``forward`` is the kernel as an operator of PyTorch, which works with autograd
and ``torch.compile``. It takes validated tensors of four axes, from
``attn.kernels.attention``.

Source: Dao et al. 2022 and 2023; Milakov and Gimelshein 2018.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from attn.kernels.configs import (
    Options,
    config_for,
    dummy_pointers,
    empty_rows,
    shape_constants,
    tiles,
)
from attn.kernels.gradients import gradients, save
from attn.kernels.tile import (
    LOG2E,
    block_range,
    dot,
    exp2_safe,
    load_rows,
    log2_sum,
    packed_text,
    store_tile,
    tile_scores,
)
from attn.kernels.variants import (
    descriptor_reasons,
    descriptors,
    programs_at_a_time,
)

__all__ = ["attention_forward", "forward"]


@triton.jit
def attention_forward(
    Q, K, V, OUT, LSE,  # tensors; LSE is (B, H, L), a natural log
    MASK, VALID, SINKS, OFFSETS, CU_Q, CU_K,  # the first three may be dummies
    scale, softcap, left, right, B, H, L, S,
    q_b, q_h, q_l, q_d, k_b, k_h, k_s, k_d,  # strides
    v_b, v_h, v_s, v_d, o_b, o_h, o_l, m_b, m_h, m_l, m_s, lse_b, lse_h,
    GROUP: tl.constexpr,  # query heads per key head
    D: tl.constexpr, DV: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,  # powers of 2, >= D and DV
    BANDED: tl.constexpr,  # bounds in use: 0 none, 1 right, 2 left and right
    MASK_KIND: tl.constexpr,  # 0 none, 1 bool, 2 additive
    HAS_VALID: tl.constexpr, HAS_SINKS: tl.constexpr, HAS_CAP: tl.constexpr,
    VARLEN: tl.constexpr, PRECISION: tl.constexpr,
    SCALED: tl.constexpr,  # whether scores are scaled before the maximum
    DESCRIPTORS: tl.constexpr,  # whether Q, K and V are, in place of pointers
    PERSISTENT: tl.constexpr,  # whether a program computes several blocks
):  # fmt: skip
    """Compute ``OUT = softmax(Q @ K.T * scale …) @ V``, ``BLOCK_L`` rows."""
    b = tl.program_id(2).to(tl.int64)
    h = tl.program_id(1).to(tl.int64)
    # Under a causal mask the last rows have the most keys: they go first.
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    start, stop, step = 0, 1, 1
    if PERSISTENT:
        start, step = tl.program_id(0), tl.num_programs(0)
        stop = tl.cdiv(L, BLOCK_L) * H * B
    if VARLEN:  # sequences are stored end to end: find this one
        q_start, L = packed_text(CU_Q, b)
        k_start, S = packed_text(CU_K, b)
        Q += q_start * q_l
        K += k_start * k_s
        V += k_start * v_s
        OUT += q_start * o_l
        LSE += q_start
    unit = 1.0
    if not SCALED:  # then the scale is part of the exponential's subtraction
        unit = scale * LOG2E
    # Only a short sequence has such blocks, but without this branch the
    # compiler spills in float32.
    if not PERSISTENT and block * BLOCK_L >= L:
        return
    for turn in tl.range(start, stop, step):
        if PERSISTENT:  # of all heads the last rows, then those before
            block = tl.cdiv(L, BLOCK_L) - 1 - turn // (H * B)
            h = (turn % H).to(tl.int64)
            b = (turn // H % B).to(tl.int64)
        kv_head = h // GROUP
        q_offset = tl.load(OFFSETS + b).to(tl.int32)
        row = block * BLOCK_L + tl.arange(0, BLOCK_L)  # (l,)
        q_head, k_head, v_head = Q, K, V  # descriptors are of all heads
        if not DESCRIPTORS:
            q_head = Q + b * q_b + h * q_h
            k_head = K + b * k_b + kv_head * k_h
            v_head = V + b * v_b + kv_head * v_h
        out_head = OUT + b * o_b + h * o_h
        lse_head = LSE + b * lse_b + h * lse_h
        mask_head = MASK + b * m_b + h * m_h
        valid_head = VALID + b * S
        q = load_rows(
            q_head, b, h, block * BLOCK_L, row, L, q_l, q_d, D, BLOCK_D,
            DESCRIPTORS,
        )  # fmt: skip

        first, last = block * BLOCK_L + q_offset, row + q_offset
        last = tl.max(tl.where(row < L, last, first), 0)  # of the positions
        bounds = block_range(
            first, last, left, right, S, BLOCK_S, BANDED == 2, BANDED > 0,
            True, MASK_KIND > 0 or HAS_VALID,
        )  # fmt: skip
        m_i = tl.full([BLOCK_L], float("-inf"), tl.float32)
        l_i = tl.zeros([BLOCK_L], tl.float32)
        out = tl.zeros([BLOCK_L, BLOCK_DV], tl.float32)
        for part in tl.static_range(3):  # the middle part needs no mask
            for s0 in tl.range(bounds[part], bounds[part + 1], BLOCK_S):
                column = s0 + tl.arange(0, BLOCK_S)  # (s,)
                k = load_rows(
                    k_head, b, kv_head, s0, column, S, k_s, k_d, D, BLOCK_D,
                    DESCRIPTORS,
                )  # (s, D)  # fmt: skip
                scores, _ = tile_scores(
                    dot(q, tl.trans(k), PRECISION),  # (l, s)
                    row[:, None], column[None, :], L, S, q_offset, left, right,
                    scale, softcap, mask_head, m_l, m_s, valid_head,
                    part != 1, BANDED, MASK_KIND, HAS_VALID, HAS_CAP, SCALED,
                )  # fmt: skip
                m_new = tl.maximum(m_i, tl.max(scores, 1) * unit)
                p = exp2_safe(scores * unit, m_new[:, None])
                alpha = exp2_safe(m_i, m_new)
                v = load_rows(
                    v_head, b, kv_head, s0, column, S, v_s, v_d, DV, BLOCK_DV,
                    DESCRIPTORS,
                )  # (s, Dv)  # fmt: skip
                l_i = l_i * alpha + tl.sum(p, 1)
                out = out * alpha[:, None] + dot(p.to(v.dtype), v, PRECISION)
                m_i = m_new

        lse = log2_sum(m_i, l_i) / LOG2E
        tl.store(lse_head + row, lse, row < L)
        if HAS_SINKS:  # one more score, without a value
            sink = tl.load(SINKS + h).to(tl.float32) * LOG2E
            l_i += tl.math.exp2(sink - tl.where(l_i > 0.0, m_i, sink))
        out = out / tl.where(l_i > 0.0, l_i, 1.0)[:, None]
        store_tile(out_head, out, row, L, o_l, DV, BLOCK_DV)


@torch.library.custom_op("attn::fused_attention", mutates_args=())
def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    valid: Tensor | None,
    sinks: Tensor | None,
    q_offset: Tensor,
    scale: float,
    softcap: float,
    left: int,
    right: int,
    cu_q: Tensor | None = None,
    cu_k: Tensor | None = None,
    longest_q: int = 0,
    longest_k: int = 0,
    variant: str = "",
) -> tuple[Tensor, Tensor]:
    """Compute the output and the lse.

    With ``cu_q`` the only row of each tensor holds all texts, end to end.

    Args:
        query: ``(B, H, L, D)``.
        key: ``(B, Hkv, S, D)``.
        value: ``(B, Hkv, S, Dv)``.
        mask, valid, sinks, q_offset, scale, softcap, left, right, cu_q, cu_k,
        longest_q, longest_k: the fields of ``Options``.
        variant: of the kernel; that of the table when empty.

    Returns:
        ``(B, H, L, Dv)`` in the query's dtype; ``(B, H, L)`` float32.
    """
    options = Options(
        mask, valid, sinks, q_offset, scale, softcap, left, right,
        cu_q, cu_k, longest_q, longest_k,
    )  # fmt: skip
    out, lse = _empty_results(query, key, value, *options)
    if not out.numel():
        return out, lse.fill_(-torch.inf)
    packed = cu_q is not None
    results = out, lse
    query, key, value, out, lse = options.by_text(query, key, value, *results)
    B, H = query.shape[:2]
    L, S = options.lengths(query, key)
    tensors = {"query": query, "key": key, "value": value}
    loaded: list[Any] = [*tensors.values()]
    tile = tiles("forward", query, value, L, S)
    grid = (triton.cdiv(L, tile["BLOCK_L"]), H, B)
    constants = shape_constants(query, key, value) | options.constants
    variant = variant or config_for("forward", query, value).variant
    if variant != "pointers":
        if packed or descriptor_reasons(**tensors):
            variant = "pointers"
        else:
            loaded = descriptors(tensors, constants | tile)
    if variant == "persistent":
        most = programs_at_a_time(query.device, tile["num_warps"])
        grid = (min(most, math.prod(grid)), 1, 1)
    else:  # only that grid needs it; other values compile the kernel again
        B = 0
    if packed:  # the kernel loads both
        L = S = 0
    dummies = dummy_pointers(query, mask, valid, sinks, cu_q, cu_k)
    mask, valid, sinks, *ends = dummies
    attention_forward[grid](
        *loaded, out, lse, mask, valid, sinks, q_offset, *ends,
        scale, softcap, left, right, B, H, L, S,
        *query.stride(), *key.stride(), *value.stride(), *out.stride()[:3],
        *mask.stride(), *lse.stride()[:2],
        **constants, **tile,
        VARLEN=packed, DESCRIPTORS=variant != "pointers",
        # The largest product has the largest score if the scale is positive.
        SCALED=not (scale > 0 and not softcap and constants["MASK_KIND"] < 2),
        PERSISTENT=variant == "persistent",
    )  # fmt: skip
    return results


@forward.register_fake
def _empty_results(
    query: Tensor, key: Tensor, value: Tensor, *options: Any
) -> tuple[Tensor, Tensor]:
    B, H, L = query.shape[:3]
    packed = Options(*options[: len(Options._fields)]).cu_q is not None
    out = empty_rows(query, (B, H, L, value.shape[-1]), packed)
    return out, query.new_empty(B, H, L, dtype=torch.float32)


forward.register_autograd(gradients, setup_context=save)
