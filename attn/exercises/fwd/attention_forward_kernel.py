"""Cases and correct variants of ``fwd-attention_forward_kernel``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from attn.exercises.kernel import Emulated, amid, result, where_kernels_run
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import (
    amid_others,
    is_view,
    kv_heads,
    many_keys,
    many_queries,
)
from attn.exercises.triton_compat import tl, triton
from attn.functional import scaled_dot_product_attention


def launch(
    kernel: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    is_causal: bool = False,
    q_offset: int = 0,
    block_l: int = 16,
    block_s: int = 16,
) -> Tensor:
    """Launch one program per block of queries of each head."""
    query, key, value = map(where_kernels_run, (query, key, value))
    H, L, D = query.shape
    S = key.shape[1]
    with result(query.shape, Q=query, K=key, V=value) as out:
        kernel[(triton.cdiv(L, block_l), H)](
            query, key, value, out, scale, L, S, q_offset,
            *query.stride()[:2], *key.stride()[:2],
            *value.stride()[:2], *out.stride()[:2],
            GROUP=H // key.shape[0], IS_CAUSAL=is_causal, D=D,
            BLOCK_L=block_l, BLOCK_S=block_s,
        )  # fmt: skip
    return out.cpu()


def _emulated(
    _grid: Any, Q: Tensor, K: Tensor, V: Tensor, OUT: Tensor, scale: float,
    _L: int, _S: int, q_offset: int, *_: int, IS_CAUSAL: bool, **_blocks: int,
) -> None:  # fmt: skip
    OUT.copy_(
        scaled_dot_product_attention(
            Q, K, V, is_causal=IS_CAUSAL, scale=scale, enable_gqa=True,
            q_offset=q_offset,
        )
    )  # fmt: skip


def _cases(g: Generator) -> Iterator[Case]:
    def case(
        stage: str,
        L: int,
        S: int,
        H: int = 1,
        Hkv: int = 1,
        *,
        spread: float = 1.0,
        rising: float = 0.0,
        negative: bool = False,
        gaps: tuple[int, int, int] = (0, 0, 0),
        dtype: torch.dtype = torch.float32,
        **kwargs: Any,
    ) -> Case:
        D = 16
        q = torch.randn(H, L, D, generator=g) * spread
        k = torch.randn(Hkv, S, D, generator=g)
        v = torch.randn(Hkv, S, D, generator=g)
        if rising:  # a larger score for each later key
            k = k + rising * torch.arange(S)[:, None] * q[:1, :1].sign()
        if negative:
            q, k = q.abs(), -k.abs()
        tensors = tuple(
            amid(x.to(dtype), gap)
            for x, gap in zip((q, k, v), gaps, strict=True)
        )
        # Not the usual scale, so that the argument has to be used.
        return Case(stage, (*tensors, 1.5 / D**0.5), kwargs)

    yield case("one tile holds everything", 16, 16)
    stage = "there are several tiles of keys"
    yield case(stage, 16, 32)
    yield case(stage, 16, 64, rising=0.25, block_s=32)
    yield case("there are several blocks of queries", 32, 16)
    stage = "there are several heads"
    yield case(stage, 16, 16, 2, 2)
    yield case("heads share keys (GQA)", 16, 16, 4, 2)
    stage = "the tensors have strides of their own"
    yield case(stage, 16, 16, 2, 2, gaps=(1, 4, 9))
    stage = "the keys end inside a tile"
    yield case(stage, 16, 30, gaps=(2, 2, 2))
    yield case(stage, 16, 37, gaps=(2, 2, 2))
    stage = "the queries end inside a block"
    yield case(stage, 21, 16, gaps=(2, 2, 2))
    yield case("is_causal, in one tile", 16, 16, is_causal=True)
    stage = "is_causal, in many tiles"
    yield case(stage, 32, 32, is_causal=True, block_l=32)
    yield case(stage, 20, 20, is_causal=True, block_s=32)
    stage = "is_causal, the queries being the last tokens"
    yield case(stage, 10, 40, is_causal=True, q_offset=30)
    stage = "is_causal, and the first queries see nothing"
    yield case(stage, 20, 24, is_causal=True, q_offset=-18)
    stage = "the scores are large"
    yield case(stage, 16, 33, spread=60.0, is_causal=True, q_offset=9)
    stage = "masked scores are far larger than the others"
    yield case(stage, 16, 16, rising=4.0, is_causal=True)
    stage = "all scores are very negative"
    yield case(stage, 16, 21, spread=60.0, negative=True)
    stage = "the tensors are float16"
    yield case(stage, 16, 48, dtype=torch.float16, spread=0.3)


exercise = Exercise(
    id="fwd-attention_forward_kernel",
    points=3,
    reference=Emulated(_emulated),
    launch=launch,
    cases=_cases,
    breaks={
        "position 0": lambda c: c.kwargs.get("q_offset", 0) > 0,
        "S = 1": many_keys,
        "H = 1": kv_heads,
        "L = S": many_queries,
        "zeroed memory": amid_others,
        "contiguous strides": is_view,
    },
)


@exercise.equivalent("exp2, with log2(e) in the scale, and blocks skipped")
@triton.jit
def _exp2(
    Q, K, V, OUT, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, o_h, o_l,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    h = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)
    d = tl.arange(0, D)
    inside = row < L
    q = tl.load(
        Q + h * q_h + row[:, None] * q_l + d, mask=inside[:, None], other=0.0
    )
    K += (h // GROUP) * k_h
    V += (h // GROUP) * v_h
    m_i = tl.full([BLOCK_L], float("-inf"), tl.float32)
    l_i = tl.full([BLOCK_L], 1.0, tl.float32)
    acc = tl.zeros([BLOCK_L, D], tl.float32)
    hi = S
    if IS_CAUSAL:
        hi = tl.minimum(S, (tl.program_id(0) + 1) * BLOCK_L + q_offset)
    for j in range(0, hi, BLOCK_S):
        col = j + tl.arange(0, BLOCK_S)
        k = tl.load(
            K + col[None, :] * k_s + d[:, None], mask=col[None, :] < S, other=0
        )
        s = tl.dot(q, k) * (scale * 1.4426950408889634)
        s = tl.where(col[None, :] < S, s, float("-inf"))
        if IS_CAUSAL:
            early = row[:, None] + q_offset < col[None, :]
            s = tl.where(early, float("-inf"), s)
        m_new = tl.maximum(m_i, tl.max(s, 1))
        safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.math.exp2(s - safe[:, None])
        alpha = tl.math.exp2(m_i - safe)
        v = tl.load(
            V + col[:, None] * v_s + d[None, :],
            mask=(col < S)[:, None],
            other=0.0,
        )
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(v.dtype), v, acc)
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
    l_i = tl.where(m_i == float("-inf"), 1.0, l_i)
    acc = acc / l_i[:, None]
    tl.store(
        OUT + h * o_h + row[:, None] * o_l + d,
        acc.to(OUT.dtype.element_ty),
        mask=inside[:, None],
    )


@triton.jit
def _load(P, head, token, h_stride, stride, count, D: tl.constexpr):
    d = tl.arange(0, D)
    place = P + head * h_stride + token[:, None] * stride + d[None, :]
    return tl.load(place, mask=token[:, None] < count, other=0.0)


@exercise.equivalent("two passes: the maximum first")
@triton.jit
def _two_passes(
    Q, K, V, OUT, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, o_h, o_l,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    h = tl.program_id(1)
    row = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)
    q = _load(Q, h, row, q_h, q_l, L, D)
    m_i = tl.full([BLOCK_L, 1], -1.0e30, tl.float32)
    for j in range(0, S, BLOCK_S):
        col = j + tl.arange(0, BLOCK_S)
        k = _load(K, h // GROUP, col, k_h, k_s, S, D)
        s = tl.dot(q, tl.trans(k)) * scale
        ok = col[None, :] < S
        if IS_CAUSAL:
            ok = ok & (row[:, None] + q_offset >= col[None, :])
        s = tl.where(ok, s, -1.0e30)
        m_i = tl.maximum(m_i, tl.max(s, 1, keep_dims=True))
    l_i = tl.zeros([BLOCK_L, 1], tl.float32)
    out = tl.zeros([BLOCK_L, D], tl.float32)
    for j in range(0, S, BLOCK_S):
        col = j + tl.arange(0, BLOCK_S)
        k = _load(K, h // GROUP, col, k_h, k_s, S, D)
        v = _load(V, h // GROUP, col, v_h, v_s, S, D)
        s = tl.dot(q, tl.trans(k)) * scale
        ok = col[None, :] < S
        if IS_CAUSAL:
            ok = ok & (row[:, None] + q_offset >= col[None, :])
        p = tl.where(ok, tl.exp(s - m_i), 0.0)
        l_i += tl.sum(p, 1, keep_dims=True)
        out += tl.dot(p.to(v.dtype), v)
    out = tl.where(l_i > 0.0, out / l_i, 0.0)
    place = OUT + h * o_h + row[:, None] * o_l + tl.arange(0, D)[None, :]
    tl.store(place, out, mask=row[:, None] < L)


@exercise.equivalent("normalised after each tile, and queries are scaled")
@triton.jit
def _normalised(
    Q, K, V, OUT, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, o_h, o_l,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    h = tl.program_id(1)
    row = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)
    q = _load(Q, h, row, q_h, q_l, L, D).to(tl.float32) * scale
    lse = tl.full([BLOCK_L], -float("inf"), tl.float32)
    out = tl.zeros([BLOCK_L, D], tl.float32)
    for j in range(0, tl.cdiv(S, BLOCK_S)):
        col = j * BLOCK_S + tl.arange(0, BLOCK_S)
        k = _load(K, h // GROUP, col, k_h, k_s, S, D).to(tl.float32)
        v = _load(V, h // GROUP, col, v_h, v_s, S, D).to(tl.float32)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
        last = tl.where(row < L, S - 1, -1)
        if IS_CAUSAL:
            last = tl.minimum(last, row + q_offset)
        s = tl.where(col[None, :] <= last[:, None], s, -float("inf"))
        m_i = tl.maximum(lse, tl.max(s, 1))
        safe = tl.where(m_i == -float("inf"), 0.0, m_i)
        before = tl.exp(lse - safe)
        w = tl.exp(s - safe[:, None])
        both = before + tl.sum(w, 1)
        part = tl.dot(w, v, input_precision="ieee")
        out = out * before[:, None] + part
        out = out / tl.where(both > 0.0, both, 1.0)[:, None]
        lse = tl.where(both > 0.0, safe + tl.log(both), -float("inf"))
    place = OUT + h * o_h + row[:, None] * o_l + tl.arange(0, D)[None, :]
    tl.store(place, out, mask=row[:, None] < L)
