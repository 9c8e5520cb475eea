"""Solutions of chapter 13. Each signature and docstring is the task."""

from attn.exercises.triton_compat import tl, triton


@triton.jit
def delta_kernel(
    OUT, DO, DELTA, L, D, o_h, o_l, do_h, do_l, delta_h,
    BLOCK_L: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Compute delta, the sum of ``OUT * DO`` over each row.

    Program ``(i, h)`` of the grid has block i of the rows of head h,
    ``BLOCK_L`` of them. Row l of head h is at ``h * o_h + l * o_l`` in
    ``OUT`` and at strides of its own in ``DO``. Its sum belongs at
    ``h * delta_h + l``. The ``D`` elements of a row fit into
    ``BLOCK_D`` lanes. Inputs may be float16, with values of 300;
    multiply and add in float32. Masked lanes without ``other=`` are
    NaN; outside the tensors nothing may be read or written.

    Args:
        OUT, DO: the output and its gradient, ``(H, L, D)``.
        DELTA: the result, ``(H, L)``, float32.
        o_h, o_l, ...: elements from a head, or a row, to the next.
    """
    row = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)  # (l,)
    head, d = tl.program_id(1), tl.arange(0, BLOCK_D)
    inside = (row < L)[:, None] & (d < D)[None, :]
    place = head * o_h + row[:, None] * o_l + d[None, :]
    o = tl.load(OUT + place, inside, 0.0).to(tl.float32)
    place = head * do_h + row[:, None] * do_l + d[None, :]
    do = tl.load(DO + place, inside, 0.0).to(tl.float32)
    tl.store(DELTA + head * delta_h + row, tl.sum(o * do, 1), row < L)


@triton.jit
def dkdv_kernel(
    Q, K, V, DO, LSE, DELTA, DK, DV, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, do_h, do_l, lse_h, dk_h, dk_s,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of one block of keys and their values.

    Program ``(i, h)`` of the grid has block i of the keys of key head
    h. It goes through the queries of all ``GROUP`` heads that share
    them, ``BLOCK_L`` at a time, and computes each tile of weights again
    from the scores and ``LSE``. Masks and traps are those of
    ``attention_forward_kernel``; tiles that a causal mask hides wholly
    are not visited. A query without a key has an lse of minus infinity.
    Add up in float32, each gradient in one program: no atomics.

    Args:
        Q, DO: ``(H, L, D)``; D is a power of two.
        K, V: ``(Hkv, S, D)``, where Hkv is ``H // GROUP``.
        DK, DV: the results, ``(Hkv, S, D)``.
        LSE, DELTA: ``(H, L)``, float32, with the same strides.
        scale: on the scores.
        q_h, q_l, ...: strides; ``dk_h`` and ``dk_s`` are DV's, too.
    """
    start = tl.program_id(0) * BLOCK_S
    column = start + tl.arange(0, BLOCK_S)  # (s,)
    kv_head, d = tl.program_id(1), tl.arange(0, D)
    inside = column[:, None] < S
    K += kv_head * k_h
    V += kv_head * v_h
    k = tl.load(K + column[:, None] * k_s + d[None, :], inside, 0.0)
    v = tl.load(V + column[:, None] * v_s + d[None, :], inside, 0.0)
    first = 0
    if IS_CAUSAL:  # the first block with a query that sees a key
        first = tl.maximum(start - q_offset, 0) // BLOCK_L * BLOCK_L
    dk = tl.zeros([BLOCK_S, D], tl.float32)
    dv = tl.zeros([BLOCK_S, D], tl.float32)
    for head in range(kv_head * GROUP, (kv_head + 1) * GROUP):
        for block in range(first, L, BLOCK_L):
            row = block + tl.arange(0, BLOCK_L)  # (l,)
            real = row < L
            place = Q + head * q_h + row[:, None] * q_l + d[None, :]
            q = tl.load(place, real[:, None], 0.0)
            place = DO + head * do_h + row[:, None] * do_l + d[None, :]
            do = tl.load(place, real[:, None], 0.0)
            lse = tl.load(LSE + head * lse_h + row, real, 0.0)
            delta = tl.load(DELTA + head * lse_h + row, real, 0.0)
            # As (s, l): only what was loaded has to be transposed.
            s = tl.dot(k, tl.trans(q), input_precision="ieee") * scale
            mask = inside & real[None, :]  # (s, l)
            if IS_CAUSAL:
                mask &= column[:, None] <= row[None, :] + q_offset
            p = tl.where(mask, tl.exp(s - lse[None, :]), 0.0)
            dv += tl.dot(p.to(do.dtype), do, input_precision="ieee")
            dp = tl.dot(v, tl.trans(do), input_precision="ieee")
            ds = p * (dp - delta[None, :])
            dk += tl.dot(ds.to(q.dtype), q, input_precision="ieee")
    place = kv_head * dk_h + column[:, None] * dk_s + d[None, :]
    tl.store(DK + place, dk * scale, inside)
    tl.store(DV + place, dv, inside)


@triton.jit
def dq_kernel(
    Q, K, V, DO, LSE, DELTA, DQ, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, do_h, do_l, lse_h, dq_h, dq_l,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of one block of the queries of a head.

    The mirror image of ``dkdv_kernel``: program ``(i, h)`` of the grid
    has block i of the queries of head h. It loads the keys and values
    of head ``h // GROUP``, ``BLOCK_S`` at a time, each tile once, and
    computes the weights again from the scores and ``LSE``. Masks and
    traps are those of ``attention_forward_kernel``; tiles that a causal
    mask hides wholly are not visited. A query without a key has an lse
    of minus infinity, and the gradient 0. Add up in float32.

    Args:
        Q, DO: ``(H, L, D)``; D is a power of two.
        K, V: ``(Hkv, S, D)``, where Hkv is ``H // GROUP``.
        LSE, DELTA: ``(H, L)``, float32, with the same strides.
        DQ: the result, ``(H, L, D)``.
        scale: on the scores.
        q_h, q_l, ...: elements from a head, or a token, to the next.
    """
    start = tl.program_id(0) * BLOCK_L
    row = start + tl.arange(0, BLOCK_L)  # (l,)
    head, d = tl.program_id(1), tl.arange(0, D)
    real = row < L
    place = Q + head * q_h + row[:, None] * q_l + d[None, :]
    q = tl.load(place, real[:, None], 0.0)
    place = DO + head * do_h + row[:, None] * do_l + d[None, :]
    do = tl.load(place, real[:, None], 0.0)
    lse = tl.load(LSE + head * lse_h + row, real, 0.0)
    delta = tl.load(DELTA + head * lse_h + row, real, 0.0)
    K += head // GROUP * k_h
    V += head // GROUP * v_h
    end = S
    if IS_CAUSAL:  # after the last key that the last query sees
        end = tl.minimum(S, tl.minimum(start + BLOCK_L, L) + q_offset)
    dq = tl.zeros([BLOCK_L, D], tl.float32)
    for block in range(0, end, BLOCK_S):
        column = block + tl.arange(0, BLOCK_S)  # (s,)
        inside = column[:, None] < S
        k = tl.load(K + column[:, None] * k_s + d[None, :], inside, 0.0)
        v = tl.load(V + column[:, None] * v_s + d[None, :], inside, 0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        mask = real[:, None] & (column[None, :] < S)  # (l, s)
        if IS_CAUSAL:
            mask &= column[None, :] <= row[:, None] + q_offset
        p = tl.where(mask, tl.exp(s - lse[:, None]), 0.0)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None])
        dq += tl.dot(ds.to(k.dtype), k, input_precision="ieee")
    place = DQ + head * dq_h + row[:, None] * dq_l + d[None, :]
    tl.store(place, dq * scale, real[:, None])


@triton.jit
def decode_split_kernel(
    Q, K, V, PART, scale, S, chunk,
    q_h, k_h, k_s, v_h, v_s, p_h, p_n, p_g,
    GROUP: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr,
    BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Compute one query's attention to one chunk of the keys.

    Program ``(n, h)`` of the grid has chunk n of the keys of key head
    h, ``n * chunk`` to ``(n + 1) * chunk - 1`` as far as there are
    keys. The ``GROUP`` heads that share them are the rows of its tile:
    ``ROWS`` of them, of which the first ``GROUP`` exist. It stores
    their outputs, as if there were no other keys, and behind each its
    lse. A chunk without a key gives 0, and minus infinity. Masked lanes
    without ``other=`` are NaN; outside the tensors nothing may be read
    or written.

    Args:
        Q: one query of each head, ``(H, 1, D)``; D is a power of two.
        K, V: ``(Hkv, S, D)``.
        PART: the result, ``(Hkv, splits, GROUP, D + 1)``, float32: an
            output, and its lse in element D.
        scale: on the scores.
        q_h, k_h, ...: strides; p_n is from a split to the next.
    """
    split, kv_head = tl.program_id(0), tl.program_id(1)
    g, d = tl.arange(0, ROWS), tl.arange(0, D)  # a head of the group
    real = g < GROUP
    place = (kv_head * GROUP + g)[:, None] * q_h + d[None, :]
    q = tl.load(Q + place, real[:, None], 0.0)  # (g, D)
    K += kv_head * k_h
    V += kv_head * v_h
    m_i = tl.full([ROWS], -float("inf"), tl.float32)
    l_i = tl.zeros([ROWS], tl.float32)
    out = tl.zeros([ROWS, D], tl.float32)
    end = tl.minimum((split + 1) * chunk, S)
    for start in range(split * chunk, end, BLOCK_S):
        column = start + tl.arange(0, BLOCK_S)  # (s,)
        inside = column[:, None] < end
        k = tl.load(K + column[:, None] * k_s + d[None, :], inside, 0.0)
        v = tl.load(V + column[:, None] * v_s + d[None, :], inside, 0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(column[None, :] < end, s, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        weights = tl.exp(s - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        l_i = l_i * alpha + tl.sum(weights, 1)
        part = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        out = out * alpha[:, None] + part
        m_i = m_new
    total = tl.where(l_i > 0, l_i, 1.0)
    PART += kv_head * p_h + split * p_n
    place = PART + g[:, None] * p_g + d[None, :]
    tl.store(place, out / total[:, None], real[:, None])
    tl.store(PART + g * p_g + D, m_i + tl.log(total), real)
