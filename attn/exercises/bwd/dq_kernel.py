"""Cases and correct variants of ``bwd-dq_kernel``."""

from attn.exercises.bwd.gradients import BREAKS, by_formula, cases, launching
from attn.exercises.spec import Exercise
from attn.exercises.triton_compat import tl, triton

exercise = Exercise(
    id="bwd-dq_kernel",
    points=2,
    reference=by_formula(slice(1)),
    launch=launching("DQ"),
    cases=cases,
    breaks=BREAKS,
)


@exercise.equivalent("every tile, with queries that are scaled, in exp2")
@triton.jit
def _scaled(
    Q, K, V, DO, LSE, DELTA, DQ, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, do_h, do_l, lse_h, dq_h, dq_l,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    h = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)[:, None]
    d = tl.arange(0, D)[None, :]
    q = tl.load(Q + h * q_h + row * q_l + d, row < L, 0.0).to(tl.float32)
    do = tl.load(DO + h * do_h + row * do_l + d, row < L, 0.0).to(tl.float32)
    lse = tl.load(LSE + h * lse_h + row, row < L, float("inf"))
    delta = tl.load(DELTA + h * lse_h + row, row < L, 0.0)
    q = q * (scale * 1.4426950408889634)
    lse = tl.where(lse == -float("inf"), 0.0, lse) * 1.4426950408889634
    dq = tl.zeros([BLOCK_L, D], tl.float32)
    for j in range(0, S, BLOCK_S):
        col = j + tl.arange(0, BLOCK_S)[:, None]
        k = tl.load(K + (h // GROUP) * k_h + col * k_s + d, col < S, 0.0)
        v = tl.load(V + (h // GROUP) * v_h + col * v_s + d, col < S, 0.0)
        k, v = k.to(tl.float32), v.to(tl.float32)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
        s = tl.where(tl.trans(col) < S, s, -float("inf"))
        if IS_CAUSAL:
            future = tl.trans(col) > row + q_offset
            s = tl.where(future, -float("inf"), s)
        p = tl.math.exp2(s - lse)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        dq = tl.dot(p * (dp - delta), k, dq, input_precision="ieee")
    tl.store(DQ + h * dq_h + row * dq_l + d, dq * scale, row < L)


@exercise.equivalent("everything transposed, from the last tile back")
@triton.jit
def _transposed(
    Q, K, V, DO, LSE, DELTA, DQ, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, do_h, do_l, lse_h, dq_h, dq_l,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    row, d = (
        tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L),
        tl.arange(0, D),
    )
    at = row[None, :]
    q = tl.load(Q + head * q_h + at * q_l + d[:, None], at < L, 0.0)  # (D, l)
    do = tl.load(DO + head * do_h + at * do_l + d[:, None], at < L, 0.0)
    lse = tl.load(LSE + head * lse_h + row, row < L, 0.0)
    delta = tl.load(DELTA + head * lse_h + row, row < L, 0.0)
    dq = tl.zeros([D, BLOCK_L], tl.float32)
    start = (tl.cdiv(S, BLOCK_S) - 1) * BLOCK_S
    while start >= 0:
        col = start + tl.arange(0, BLOCK_S)[:, None]
        place = head // GROUP * k_h + col * k_s + d[None, :]
        k = tl.load(K + place, col < S, 0.0)
        place = head // GROUP * v_h + col * v_s + d[None, :]
        v = tl.load(V + place, col < S, 0.0)
        s = tl.dot(k, q, input_precision="ieee") * scale  # (s, l)
        seen = (col < S) & (at < L)
        if IS_CAUSAL:
            seen &= col <= at + q_offset
        p = tl.where(seen, tl.exp(s - lse[None, :]), 0.0)
        ds = p * (tl.dot(v, do, input_precision="ieee") - delta[None, :])
        ds = (ds * scale).to(k.dtype)
        dq += tl.dot(tl.trans(k), ds, input_precision="ieee")
        start -= BLOCK_S
    tl.store(DQ + head * dq_h + at * dq_l + d[:, None], dq, at < L)


@triton.jit
def _add_tiles(
    dq, q, do, lse, delta, K, V, row, start, end, S, scale, k_s, v_s,
    CUT: tl.constexpr, IS_CAUSAL: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Go through some tiles; the row is a position."""
    d = tl.arange(0, q.shape[1])
    for j in range(start, end, BLOCK_S):
        col = j + tl.arange(0, BLOCK_S)
        k = tl.load(K + col[:, None] * k_s + d, (col < S)[:, None], 0.0)
        v = tl.load(V + col[:, None] * v_s + d, (col < S)[:, None], 0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        p = tl.exp(s - lse[:, None])
        if CUT:
            p = tl.where((col < S)[None, :], p, 0.0)
            if IS_CAUSAL:
                p = tl.where(col[None, :] > row[:, None], 0.0, p)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None])
        dq += tl.dot(ds.to(k.dtype), k, input_precision="ieee")
    return dq


@exercise.equivalent("whole tiles without a mask, then the cut ones")
@triton.jit
def _whole_then_cut(
    Q, K, V, DO, LSE, DELTA, DQ, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, do_h, do_l, lse_h, dq_h, dq_l,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    first, h = tl.program_id(0) * BLOCK_L, tl.program_id(1)
    row, d = first + tl.arange(0, BLOCK_L), tl.arange(0, D)
    real = (row < L)[:, None]
    q = tl.load(Q + h * q_h + row[:, None] * q_l + d, real, 0.0)
    do = tl.load(DO + h * do_h + row[:, None] * do_l + d, real, 0.0)
    lse = tl.load(LSE + h * lse_h + row, row < L, 0.0)
    delta = tl.load(DELTA + h * lse_h + row, row < L, 0.0)
    K += h // GROUP * k_h
    V += h // GROUP * v_h
    whole, end = S // BLOCK_S * BLOCK_S, S
    if IS_CAUSAL:
        whole = tl.minimum(first + q_offset + 1, S) // BLOCK_S * BLOCK_S
        whole = tl.maximum(whole, 0)
        end = tl.minimum(first + BLOCK_L + q_offset, S)
    dq = tl.zeros([BLOCK_L, D], tl.float32)
    at = row + q_offset
    dq = _add_tiles(
        dq, q, do, lse, delta, K, V, at, 0, whole, S, scale, k_s, v_s,
        False, IS_CAUSAL, BLOCK_S,
    )  # fmt: skip
    dq = _add_tiles(
        dq, q, do, lse, delta, K, V, at, whole, end, S, scale, k_s, v_s,
        True, IS_CAUSAL, BLOCK_S,
    )  # fmt: skip
    place = DQ + h * dq_h + row[:, None] * dq_l + d
    tl.store(place, (dq * scale).to(DQ.dtype.element_ty), real)


@exercise.equivalent("delta times the weighted keys, taken off at the end")
@triton.jit
def _delta_last(
    Q, K, V, DO, LSE, DELTA, DQ, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, do_h, do_l, lse_h, dq_h, dq_l,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    Q += tl.program_id(1) * q_h
    DO += tl.program_id(1) * do_h
    LSE += tl.program_id(1) * lse_h
    DELTA += tl.program_id(1) * lse_h
    DQ += tl.program_id(1) * dq_h
    row = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)
    d = tl.arange(0, D)[None, :]
    real = row[:, None] < L
    q = tl.load(Q + row[:, None] * q_l + d, real, 0.0).to(tl.float32)
    do = tl.load(DO + row[:, None] * do_l + d, real, 0.0).to(tl.float32)
    lse = tl.load(LSE + row, row < L, 0.0)
    delta = tl.load(DELTA + row, row < L, 0.0)
    first = tl.zeros([BLOCK_L, D], tl.float32)
    second = tl.zeros([BLOCK_L, D], tl.float32)
    for j in range(0, tl.cdiv(S, BLOCK_S)):
        col = j * BLOCK_S + tl.arange(0, BLOCK_S)
        group = tl.program_id(1) // GROUP
        inside = col[:, None] < S
        k = tl.load(K + group * k_h + col[:, None] * k_s + d, inside, 0.0)
        v = tl.load(V + group * v_h + col[:, None] * v_s + d, inside, 0.0)
        k, v = k.to(tl.float32), v.to(tl.float32)
        last = tl.where(row < L, S - 1, -1)
        if IS_CAUSAL:
            last = tl.minimum(last, row + q_offset)
        s = tl.dot(q, k.T, input_precision="ieee") * scale
        p = tl.exp(s - lse[:, None])
        p = tl.where(col[None, :] <= last[:, None], p, 0.0)
        dp = tl.dot(do, v.T, input_precision="ieee")
        first += tl.dot(p * dp, k, input_precision="ieee")
        second += tl.dot(p, k, input_precision="ieee")
    dq = (first - delta[:, None] * second) * scale
    tl.store(DQ + row[:, None] * dq_l + d, dq, real)
