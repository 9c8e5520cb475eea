"""Cases and correct variants of ``bwd-dkdv_kernel``."""

from attn.exercises.bwd.gradients import BREAKS, by_formula, cases, launching
from attn.exercises.spec import Exercise
from attn.exercises.triton_compat import tl, triton

exercise = Exercise(
    id="bwd-dkdv_kernel",
    points=3,
    reference=by_formula(slice(1, 3)),
    launch=launching("DK", "DV"),
    cases=cases,
    breaks=BREAKS,
)


@exercise.equivalent("every block of queries, with masks that are added")
@triton.jit
def _added_masks(
    Q, K, V, DO, LSE, DELTA, DK, DV, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, do_h, do_l, lse_h, dk_h, dk_s,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    h_k = tl.program_id(1).to(tl.int64)
    s = tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S)[:, None]
    d = tl.arange(0, D)[None, :]
    k = tl.load(K + h_k * k_h + s * k_s + d, mask=s < S, other=0.0)
    v = tl.load(V + h_k * v_h + s * v_s + d, mask=s < S, other=0.0)
    dk = tl.zeros([BLOCK_S, D], tl.float32)
    dv = tl.zeros([BLOCK_S, D], tl.float32)
    for member in range(GROUP):
        h = h_k * GROUP + member
        for start in range(0, L, BLOCK_L):
            row = start + tl.arange(0, BLOCK_L)
            inside = row[:, None] < L
            q = tl.load(Q + h * q_h + row[:, None] * q_l + d, inside, 0.0)
            do = tl.load(DO + h * do_h + row[:, None] * do_l + d, inside, 0.0)
            lse = tl.load(LSE + h * lse_h + row, row < L, float("inf"))
            delta = tl.load(DELTA + h * lse_h + row, row < L, 0.0)
            st = tl.dot(k, tl.trans(q), input_precision="ieee") * scale
            st = tl.where(s < S, st, -float("inf"))
            if IS_CAUSAL:
                st += tl.where(s > row[None, :] + q_offset, -float("inf"), 0.0)
            base = tl.where(lse == -float("inf"), 0.0, lse)
            pt = tl.exp(st - base[None, :])
            dpt = tl.dot(v, tl.trans(do), input_precision="ieee")
            dst = pt * (dpt - delta[None, :])
            dv = tl.dot(pt.to(do.dtype), do, dv, input_precision="ieee")
            dk = tl.dot(dst.to(q.dtype), q, dk, input_precision="ieee")
    tl.store(DK + h_k * dk_h + s * dk_s + d, dk * scale, mask=s < S)
    tl.store(DV + h_k * dk_h + s * dk_s + d, dv, mask=s < S)


@exercise.equivalent("exp2, keys that are scaled, from the last block back")
@triton.jit
def _backwards(
    Q, K, V, DO, LSE, DELTA, DK, DV, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, do_h, do_l, lse_h, dk_h, dk_s,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    start, kv_head = tl.program_id(0) * BLOCK_S, tl.program_id(1)
    col, d = start + tl.arange(0, BLOCK_S), tl.arange(0, D)
    place = kv_head * k_h + col[:, None] * k_s + d
    k = tl.load(K + place, col[:, None] < S, 0.0).to(tl.float32)
    place = kv_head * v_h + col[:, None] * v_s + d
    v = tl.load(V + place, col[:, None] < S, 0.0).to(tl.float32)
    k = k * (scale * 1.4426950408889634)
    dk = tl.zeros([BLOCK_S, D], tl.float32)
    dv = tl.zeros([BLOCK_S, D], tl.float32)
    blocks = tl.cdiv(L, BLOCK_L)
    for i in range(GROUP * blocks):
        head = kv_head * GROUP + i // blocks
        row = (blocks - 1 - i % blocks) * BLOCK_L + tl.arange(0, BLOCK_L)
        if (not IS_CAUSAL) or tl.max(row, 0) + q_offset >= start:
            at = row[:, None]
            q = tl.load(Q + head * q_h + at * q_l + d, at < L, 0.0)
            do = tl.load(DO + head * do_h + at * do_l + d, at < L, 0.0)
            q, do = q.to(tl.float32), do.to(tl.float32)
            lse = tl.load(LSE + head * lse_h + row, row < L, 0.0)
            delta = tl.load(DELTA + head * lse_h + row, row < L, 0.0)
            s = tl.dot(q, k.T, input_precision="ieee")
            p = tl.exp2(s - (lse * 1.4426950408889634)[:, None])
            seen = (at < L) & (col[None, :] < S)
            if IS_CAUSAL:
                seen = seen & (at + q_offset >= col[None, :])
            p = tl.where(seen, p, 0.0)
            dp = tl.dot(do, v.T, input_precision="ieee") - delta[:, None]
            ds = tl.where(seen, p * dp, 0.0)
            dv += tl.dot(p.T, do, input_precision="ieee")
            dk += tl.dot(ds.T, q, input_precision="ieee")
    place = kv_head * dk_h + col[:, None] * dk_s + d
    tl.store(DV + place, dv, col[:, None] < S)
    tl.store(DK + place, dk * scale, col[:, None] < S)


@exercise.equivalent("two loops over the queries, one for each gradient")
@triton.jit
def _two_loops(
    Q, K, V, DO, LSE, DELTA, DK, DV, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, do_h, do_l, lse_h, dk_h, dk_s,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    col = tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S)[:, None]
    g, d = tl.program_id(1), tl.arange(0, D)[None, :]
    k = tl.load(K + g * k_h + col * k_s + d, col < S, 0.0)
    v = tl.load(V + g * v_h + col * v_s + d, col < S, 0.0)
    for which in tl.static_range(2):
        grad = tl.zeros([BLOCK_S, D], tl.float32)
        for h in range(g * GROUP, g * GROUP + GROUP):
            for j in range(0, L, BLOCK_L):
                row = j + tl.arange(0, BLOCK_L)[:, None]
                q = tl.load(Q + h * q_h + row * q_l + d, row < L, 0.0)
                do = tl.load(DO + h * do_h + row * do_l + d, row < L, 0.0)
                lse = tl.load(LSE + h * lse_h + row, row < L, 0.0)
                delta = tl.load(DELTA + h * lse_h + row, row < L, 0.0)
                s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
                seen = (row < L) & (tl.trans(col) < S)
                if IS_CAUSAL:
                    seen &= tl.trans(col) <= row + q_offset
                x = tl.exp(tl.where(seen, s - lse, -float("inf")))
                y = do
                if which == 1:
                    dp = tl.dot(do, tl.trans(v), input_precision="ieee")
                    x = x * (dp - delta) * scale
                    y = q
                x = tl.trans(x.to(y.dtype))
                grad += tl.dot(x, y, input_precision="ieee")
        if which == 1:
            tl.store(DK + g * dk_h + col * dk_s + d, grad, col < S)
        else:
            tl.store(DV + g * dk_h + col * dk_s + d, grad, col < S)


@triton.jit
def _rows(X, head, row, x_h, x_l, L, D: tl.constexpr):
    place = X + head * x_h + row[:, None] * x_l + tl.arange(0, D)[None, :]
    return tl.load(place, mask=row[:, None] < L, other=0.0)


@exercise.equivalent("helper functions, and heads inside blocks")
@triton.jit
def _helpers(
    Q, K, V, DO, LSE, DELTA, DK, DV, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, do_h, do_l, lse_h, dk_h, dk_s,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    col = tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S)
    kv_head = tl.program_id(1)
    k = _rows(K, kv_head, col, k_h, k_s, S, D)
    v = _rows(V, kv_head, col, v_h, v_s, S, D)
    dk = tl.zeros([BLOCK_S, D], tl.float32)
    dv = tl.zeros([BLOCK_S, D], tl.float32)
    for start in range(0, L, BLOCK_L):
        row = start + tl.arange(0, BLOCK_L)
        for member in tl.static_range(GROUP):
            head = kv_head * GROUP + member
            q = _rows(Q, head, row, q_h, q_l, L, D)
            do = _rows(DO, head, row, do_h, do_l, L, D)
            lse = tl.load(LSE + head * lse_h + row, row < L, float("inf"))
            delta = tl.load(DELTA + head * lse_h + row, row < L, 0.0)
            s = tl.dot(q, tl.trans(k), input_precision="ieee")
            allowed = col[None, :] < tl.where(row < L, S, 0)[:, None]
            if IS_CAUSAL:
                allowed &= col[None, :] - row[:, None] <= q_offset
            p = tl.where(allowed, tl.exp(s * scale - lse[:, None]), 0.0)
            dv += tl.dot(tl.trans(p).to(do.dtype), do, input_precision="ieee")
            dp = tl.dot(do, tl.trans(v), input_precision="ieee")
            ds = p * dp - p * delta[:, None]
            dk += tl.dot(tl.trans(ds).to(q.dtype), q, input_precision="ieee")
    place = kv_head * dk_h + col[:, None] * dk_s + tl.arange(0, D)[None, :]
    tl.store(
        DK + place, (dk * scale).to(DK.dtype.element_ty), col[:, None] < S
    )
    tl.store(DV + place, dv.to(DV.dtype.element_ty), col[:, None] < S)
