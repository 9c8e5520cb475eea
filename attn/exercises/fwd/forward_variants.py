"""Right answers to ``fwd-attention_forward_kernel`` in other styles."""

from collections.abc import Callable
from typing import Any

from attn.exercises.triton_compat import tl, triton

VARIANTS: dict[str, Any] = {}


def variant(style: str) -> Callable[[Any], Any]:
    """Register a kernel under its style."""

    def register(kernel: Any) -> Any:
        VARIANTS[style] = kernel
        return kernel

    return register


@variant("exp2, with log2(e) in the scale, and blocks skipped")
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


@variant("two passes: the maximum first")
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


@variant("normalised after each tile, and queries are scaled")
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


@triton.jit
def _tiles(
    q, K, V, m_i, l_i, out, row, start, end, S, k_s, v_s,
    CUT: tl.constexpr, IS_CAUSAL: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Go through some tiles; the row is a position."""
    d = tl.arange(0, q.shape[1])
    for j in range(start, end, BLOCK_S):
        col = j + tl.arange(0, BLOCK_S)
        inside = (col < S)[:, None]
        k = tl.load(K + col[:, None] * k_s + d, mask=inside, other=0.0)
        v = tl.load(V + col[:, None] * v_s + d, mask=inside, other=0.0)
        s = tl.dot(q, k.to(q.dtype).T, input_precision="ieee")
        if CUT:
            s = tl.where((col < S)[None, :], s, float("-inf"))
            if IS_CAUSAL:
                s += tl.where(col[None, :] > row[:, None], float("-inf"), 0.0)
        m_new = tl.maximum(m_i, tl.max(s, 1))
        shift = tl.where(m_new > float("-inf"), m_new, 0.0)
        p = tl.exp2(s - shift[:, None])
        alpha = tl.exp2(m_i - shift)
        l_i = l_i * alpha + tl.sum(p, 1)
        out = tl.dot(
            p, v.to(tl.float32), out * alpha[:, None], input_precision="ieee"
        )
        m_i = m_new
    return m_i, l_i, out


@variant("whole tiles without a mask, then the cut ones")
@triton.jit
def _whole_then_cut(
    Q, K, V, OUT, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, o_h, o_l,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    first, h = tl.program_id(0) * BLOCK_L, tl.program_id(1)
    row, d = first + tl.arange(0, BLOCK_L), tl.arange(0, D)
    real = (row < L)[:, None]
    q = tl.load(Q + h * q_h + row[:, None] * q_l + d[None, :], real, 0.0)
    q = q.to(tl.float32) * (scale * 1.4426950408889634)
    m_i = tl.full([BLOCK_L], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_L], tl.float32)
    out = tl.zeros([BLOCK_L, D], tl.float32)
    whole, end = S // BLOCK_S * BLOCK_S, S
    if IS_CAUSAL:
        whole = tl.minimum(first + q_offset + 1, S) // BLOCK_S * BLOCK_S
        whole = tl.maximum(whole, 0)
        end = tl.minimum(first + BLOCK_L + q_offset, S)
    K += h // GROUP * k_h
    V += h // GROUP * v_h
    row += q_offset
    m_i, l_i, out = _tiles(
        q, K, V, m_i, l_i, out, row, 0, whole, S, k_s, v_s,
        False, IS_CAUSAL, BLOCK_S,
    )  # fmt: skip
    m_i, l_i, out = _tiles(
        q, K, V, m_i, l_i, out, row, whole, end, S, k_s, v_s,
        True, IS_CAUSAL, BLOCK_S,
    )  # fmt: skip
    out = out / tl.where(l_i == 0.0, 1.0, l_i)[:, None]
    row -= q_offset
    tl.store(OUT + h * o_h + row[:, None] * o_l + d[None, :], out, real)


@variant("pointers that move, from the last tile to the first")
@triton.jit
def _backwards(
    Q, K, V, OUT, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, o_h, o_l,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    h = tl.program_id(1)
    row = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)[:, None]
    d = tl.arange(0, D)[None, :]
    q = tl.load(Q + h * q_h + row * q_l + d, mask=row < L, other=0.0)
    start = (tl.cdiv(S, BLOCK_S) - 1) * BLOCK_S
    col = tl.arange(0, BLOCK_S)[:, None]
    k_at = K + h // GROUP * k_h + (start + col) * k_s + d
    v_at = V + h // GROUP * v_h + (start + col) * v_s + d
    m_i = tl.full([BLOCK_L, 1], -1.0e30, tl.float32)
    l_i = tl.zeros([BLOCK_L, 1], tl.float32)
    out = tl.zeros([BLOCK_L, D], tl.float32)
    while start >= 0:
        inside = start + col < S
        k = tl.load(k_at, mask=inside, other=0.0)
        v = tl.load(v_at, mask=inside, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        key = start + tl.trans(col)
        seen = (key < S) & (row < L)
        if IS_CAUSAL:
            seen &= key <= row + q_offset
        s = tl.where(seen, s, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1, keep_dims=True))
        p = tl.exp(s - m_new)
        l_i = l_i * tl.exp(m_i - m_new) + tl.sum(p, 1, keep_dims=True)
        out = out * tl.exp(m_i - m_new)
        out += tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m_i = m_new
        k_at -= BLOCK_S * k_s
        v_at -= BLOCK_S * v_s
        start -= BLOCK_S
    out = tl.where(l_i > 0.0, out / l_i, 0.0)
    tl.store(OUT + h * o_h + row * o_l + d, out, mask=row < L)
