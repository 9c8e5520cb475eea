"""Cases and correct variants of ``bwd-decode_split_kernel``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.kernel import Emulated, amid, result, where_kernels_run
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import OF_ATTENTION, amid_others, kv_heads
from attn.exercises.triton_compat import tl, triton
from attn.functional import scaled_dot_product_attention


def launch(
    kernel: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    splits: int,
    chunk: int,
    rows: int = 16,
    block_s: int = 16,
) -> tuple[Tensor, Tensor]:
    """Launch one program per chunk of the keys of each key head.

    The outputs are compared in the inputs' dtype, that the weights may be
    rounded to; the lse in float32.
    """
    query, key, value = map(where_kernels_run, (query, key, value))
    (H, D), (Hkv, S, _) = query.shape[::2], key.shape
    shape = Hkv, splits, H // Hkv, D + 1
    dtype = torch.promote_types(query.dtype, torch.float32)
    named = {"Q": query, "K": key, "V": value}
    with result(shape, dtype, names=("PART",), **named) as part:
        kernel[(splits, Hkv)](
            query, key, value, part, scale, S, chunk,
            query.stride(0), *key.stride()[:2], *value.stride()[:2],
            *part.stride()[:3], GROUP=H // Hkv, ROWS=rows, D=D,
            BLOCK_S=block_s,
        )  # fmt: skip
    part = part.cpu()
    return part[..., :D].to(query.dtype), part[..., D]


def _emulated(
    grid: Any, Q: Tensor, K: Tensor, V: Tensor, PART: Tensor, scale: float,
    _S: int, chunk: int, *_: int, GROUP: int, **_blocks: int,
) -> None:  # fmt: skip
    for split in range(grid[0]):
        keys = slice(split * chunk, (split + 1) * chunk)
        out, lse = scaled_dot_product_attention(
            Q.to(PART.dtype), K[:, keys].to(PART.dtype),
            V[:, keys].to(PART.dtype), scale=scale, enable_gqa=True,
            return_lse=True,
        )  # fmt: skip
        both = torch.cat([out, lse[..., None]], -1)  # (H, 1, D + 1)
        PART[:, split].copy_(both.unflatten(0, (-1, GROUP))[..., 0, :])


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        S: int,
        splits: int,
        chunk: int,
        H: int = 2,
        Hkv: int = 1,
        *,
        spread: float = 1.0,
        lift: float = 0.0,
        sign: int = 1,
        rising: float = 0.0,
        negative: bool = False,
        gaps: tuple[int, int, int] = (0, 0, 0),
        dtype: torch.dtype = torch.float32,
        **kwargs: Any,
    ) -> Case:
        D = 16
        q = torch.randn(H, 1, D, generator=g) * spread
        k = torch.randn(Hkv, S, D, generator=g)
        v = torch.randn(Hkv, S, D, generator=g) + lift
        if rising:  # a larger score for each later key
            k = k + rising * torch.arange(S)[:, None] * q[0].sign()
        if negative:
            q, k = q.abs(), -k.abs()
        tensors = tuple(
            amid(x.to(dtype), gap)
            for x, gap in zip((q, k, v), gaps, strict=True)
        )
        # Not the usual scale, so that the argument has to be used.
        scale = sign * 1.5 / D**0.5
        return Case(when, (*tensors, scale, splits, chunk), kwargs)

    own = (1, 4, 9)
    yield case("one tile holds all keys", 16, 1, 16)
    yield case("a chunk has several tiles", 48, 1, 48, rising=0.03)
    yield case("there are several splits", 48, 3, 16)
    yield case("the keys end inside a tile", 11, 1, 16, gaps=own)
    yield case("a chunk ends inside a tile", 50, 2, 25, gaps=own)
    yield case("there are several key heads", 16, 1, 16, 2, 2, gaps=own)
    yield case("heads share keys (GQA)", 27, 2, 16, 6, 2, gaps=own)
    yield case("the last chunks have no key", 20, 4, 16, gaps=own)
    when = "the scores are large"
    yield case(when, 32, 1, 32, spread=60.0)
    yield case(when, 48, 1, 48, spread=60.0, rising=-0.05)
    when = "all scores are very negative"
    yield case(when, 11, 1, 16, spread=60.0, negative=True, gaps=own)
    half = {"dtype": torch.float16, "gaps": own}
    yield case("the tensors are float16", 24, 2, 16, **half)
    when = "the tensors are float16, and the values add up to more"
    yield case(when, 40, 1, 64, **half, spread=0.0, lift=2000.0, block_s=32)


exercise = Exercise(
    id="bwd-decode_split_kernel",
    points=3,
    reference=Emulated(_emulated),
    launch=launch,
    cases=_cases,
    breaks={**OF_ATTENTION, "H = 1": kv_heads, "zeroed memory": amid_others},
)


@exercise.equivalent("exp2, keys transposed, and a maximum that is finite")
@triton.jit
def _exp2(
    Q, K, V, PART, scale, S, chunk,
    q_h, k_h, k_s, v_h, v_s, p_h, p_n, p_g,
    GROUP: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr,
    BLOCK_S: tl.constexpr,
):  # fmt: skip
    n, h = tl.program_id(0), tl.program_id(1).to(tl.int64)
    g, d = tl.arange(0, ROWS)[:, None], tl.arange(0, D)
    q = tl.load(Q + (h * GROUP + g) * q_h + d, mask=g < GROUP, other=0.0)
    q = q.to(tl.float32) * (scale * 1.4426950408889634)
    m_i = tl.full([ROWS, 1], -1.0e30, tl.float32)
    l_i = tl.zeros([ROWS, 1], tl.float32)
    out = tl.zeros([ROWS, D], tl.float32)
    for i in range(tl.cdiv(chunk, BLOCK_S)):
        within = i * BLOCK_S + tl.arange(0, BLOCK_S)
        s = n * chunk + within
        real = (within < chunk) & (s < S)
        k = tl.load(
            K + h * k_h + s[None, :] * k_s + d[:, None], real[None, :], 0.0
        )
        v = tl.load(
            V + h * v_h + s[:, None] * v_s + d[None, :], real[:, None], 0.0
        )
        x = tl.dot(q, k.to(tl.float32), input_precision="ieee")
        x = tl.where(real[None, :], x, -float("inf"))
        new = tl.maximum(m_i, tl.max(x, 1, keep_dims=True))
        w = tl.math.exp2(x - new)
        fade = tl.math.exp2(m_i - new)
        l_i = l_i * fade + tl.sum(w, 1, keep_dims=True)
        out = tl.dot(w, v.to(tl.float32), out * fade, input_precision="ieee")
        m_i = new
    some = l_i > 0.0
    log = tl.math.log2(tl.where(some, l_i, 1.0))
    lse = tl.where(some, (m_i + log) / 1.4426950408889634, -float("inf"))
    out = tl.where(some, out / tl.where(some, l_i, 1.0), 0.0)
    place = PART + h * p_h + n * p_n + g * p_g
    tl.store(place + d[None, :], out, mask=g < GROUP)
    tl.store(place + D, lse, mask=g < GROUP)


@exercise.equivalent("two passes: the lse first")
@triton.jit
def _two_passes(
    Q, K, V, PART, scale, S, chunk,
    q_h, k_h, k_s, v_h, v_s, p_h, p_n, p_g,
    GROUP: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr,
    BLOCK_S: tl.constexpr,
):  # fmt: skip
    g, d, t = tl.arange(0, ROWS), tl.arange(0, D), tl.arange(0, BLOCK_S)
    lo = tl.program_id(0) * chunk
    hi = tl.minimum(lo + chunk, S)
    q = tl.load(
        Q + (tl.program_id(1) * GROUP + g[:, None]) * q_h + d[None, :],
        mask=g[:, None] < GROUP, other=0.0,
    )  # fmt: skip
    K += tl.program_id(1) * k_h
    V += tl.program_id(1) * v_h
    lse = tl.full([ROWS], -float("inf"), tl.float32)
    for j in range(lo, hi, BLOCK_S):
        s = (j + t)[:, None]
        k = tl.load(K + s * k_s + d[None, :], s < hi, 0.0)
        x = scale * tl.dot(q, k.T, input_precision="ieee")
        x = tl.where((j + t)[None, :] < hi, x, -float("inf"))
        m = tl.maximum(lse, tl.max(x, 1))
        total = tl.exp(lse - m) + tl.sum(tl.exp(x - m[:, None]), 1)
        lse = m + tl.log(total)
    out = tl.zeros([ROWS, D], tl.float32)
    for j in range(lo, hi, BLOCK_S):
        s = (j + t)[:, None]
        k = tl.load(K + s * k_s + d[None, :], s < hi, 0.0)
        v = tl.load(V + s * v_s + d[None, :], s < hi, 0.0).to(tl.float32)
        x = scale * tl.dot(q, k.T, input_precision="ieee") - lse[:, None]
        w = tl.where((j + t)[None, :] < hi, tl.exp(x), 0.0)
        out += tl.dot(w, v, input_precision="ieee")
    PART += tl.program_id(1) * p_h + tl.program_id(0) * p_n
    tl.store(PART + g[:, None] * p_g + d[None, :], out, g[:, None] < GROUP)
    tl.store(PART + g * p_g + D, lse, g < GROUP)


@exercise.equivalent("from the last tile to the first, merged by lse")
@triton.jit
def _merged(
    Q, K, V, PART, scale, S, chunk,
    q_h, k_h, k_s, v_h, v_s, p_h, p_n, p_g,
    GROUP: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr,
    BLOCK_S: tl.constexpr,
):  # fmt: skip
    split, h = tl.program_id(0), tl.program_id(1)
    row, d = tl.arange(0, ROWS)[:, None], tl.arange(0, D)[None, :]
    q = tl.load(Q + (h * GROUP + row) * q_h + d, row < GROUP, 0.0)
    end = tl.minimum((split + 1) * chunk, S)
    begin = split * chunk
    start = begin + (tl.cdiv(chunk, BLOCK_S) - 1) * BLOCK_S
    lse = tl.full([ROWS, 1], -float("inf"), tl.float32)
    out = tl.zeros([ROWS, D], tl.float32)
    while start >= begin:
        s = start + tl.arange(0, BLOCK_S)[:, None]
        k = tl.load(K + h * k_h + s * k_s + d, s < end, 0.0)
        v = tl.load(V + h * v_h + s * v_s + d, s < end, 0.0)
        x = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        x = tl.where(tl.trans(s) < end, x, -float("inf"))
        m = tl.maximum(lse, tl.max(x, 1, keep_dims=True))
        safe = tl.where(m == -float("inf"), 0.0, m)
        w = tl.exp(x - safe)
        old = tl.exp(lse - safe)
        total = old + tl.sum(w, 1, keep_dims=True)
        part = tl.dot(w.to(v.dtype), v, input_precision="ieee")
        some = tl.where(total > 0, total, 1.0)
        out = (out * old + part) / some
        lse = tl.where(total > 0, safe + tl.log(some), -float("inf"))
        start -= BLOCK_S
    place = PART + h * p_h + split * p_n + row * p_g
    tl.store(place + d, out, row < GROUP)
    tl.store(place + D, lse, row < GROUP)


@exercise.equivalent("one head of the group after the other, in products")
@triton.jit
def _head_by_head(
    Q, K, V, PART, scale, S, chunk,
    q_h, k_h, k_s, v_h, v_s, p_h, p_n, p_g,
    GROUP: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr,
    BLOCK_S: tl.constexpr,
):  # fmt: skip
    n, h, d = tl.program_id(0), tl.program_id(1), tl.arange(0, D)
    end = tl.minimum(n * chunk + chunk, S)
    for g in range(GROUP):
        q = tl.load(Q + (h * GROUP + g) * q_h + d).to(tl.float32) * scale
        m_i, l_i = -1.0e38, 0.0
        out = tl.zeros([D], tl.float32)
        for start in range(n * chunk, end, BLOCK_S):
            s = start + tl.arange(0, BLOCK_S)
            at = s[:, None] < end
            k = tl.load(K + h * k_h + s[:, None] * k_s + d, at, 0.0)
            v = tl.load(V + h * v_h + s[:, None] * v_s + d, at, 0.0)
            x = tl.sum(k.to(tl.float32) * q[None, :], 1)
            x = tl.where(s < end, x, -float("inf"))
            new = tl.maximum(m_i, tl.max(x, 0))
            w = tl.exp(x - new)
            fade = tl.exp(m_i - new)
            l_i = l_i * fade + tl.sum(w, 0)
            out = out * fade + tl.sum(w[:, None] * v.to(tl.float32), 0)
            m_i = new
        place = PART + h * p_h + n * p_n + g * p_g
        some = tl.where(l_i > 0, l_i, 1.0)
        tl.store(place + d, out / some)
        lse = tl.where(l_i > 0, m_i + tl.log(some), -float("inf"))
        tl.store(place + D, lse)
