"""Solutions of chapter 12. Each signature and docstring is the task."""

from attn.exercises.triton_compat import tl, triton


@triton.jit
def copy_tile_kernel(
    X, OUT, rows, columns, x_r, x_c, o_r, o_c,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Copy one tile of a matrix, ``BLOCK_R`` rows of ``BLOCK_C``.

    Program ``(i, j)`` of the grid copies the tile that is i-th from the
    top and j-th from the left. Element ``(r, c)`` is at ``X + r * x_r +
    c * x_c``, and in ``OUT`` at strides of its own. The last tiles are
    larger than what is left: outside the two matrices nothing may be
    read or written. The check also transposes matrices, which swaps
    sizes and strides, and moves nothing.

    Args:
        X, OUT: pointers to the elements ``(0, 0)``.
        rows, columns: of the matrix, in all.
        x_r, o_r: elements from one row to the next.
        x_c, o_c: elements from one column to the next.
    """
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    inside = (r < rows) & (c < columns)
    x = tl.load(X + r * x_r + c * x_c, inside)
    tl.store(OUT + r * o_r + c * o_c, x, inside)


@triton.jit
def row_softmax_kernel(
    X, OUT, x_stride, out_stride, columns, BLOCK: tl.constexpr
):
    """Compute the softmax of each row of a matrix, one program a row.

    The program's row is ``tl.program_id(0)``. Load it, once, into a
    block of ``BLOCK`` lanes, of which those beyond the row must not
    count, and compute in float32. The check uses rows that are shorter
    than the block, with gaps between them, or all negative, scores of
    200 and float16. A masked lane without ``other=`` is undefined, and
    NaN here; outside the tensors nothing may be read or written.

    Args:
        X, OUT: pointers to the first elements, ``(rows, columns)``.
        x_stride, out_stride: elements from one row to the next.
        columns: elements of a row, at most ``BLOCK``.
        BLOCK: lanes, a power of two.
    """
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    inside = lane < columns
    x = tl.load(X + row * x_stride + lane, inside, -float("inf"))
    e = tl.exp(x.to(tl.float32) - tl.max(x, 0))
    tl.store(OUT + row * out_stride + lane, e / tl.sum(e, 0), inside)


@triton.jit
def scores_kernel(
    Q, K, OUT, scale, L, S, q_l, k_s, o_l,
    IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Compute one tile of attention scores, scaled and masked.

    Program ``(i, j)`` of the grid multiplies block i of the queries by
    block j of the keys, with ``tl.dot`` and ``input_precision="ieee"``,
    and by ``scale``, in float32. With ``IS_CAUSAL`` a score is minus
    infinity where the key's index is above the query's. Queries and
    keys may be float16; the scores are float32. L and S need not be
    multiples of a block, rows may have gaps, and outside the tensors
    nothing may be read or written.

    Args:
        Q, K: ``(L, D)`` and ``(S, D)``; D is a power of two.
        OUT: the scores, ``(L, S)``.
        q_l, k_s, o_l: elements from one row to the next.
    """
    row = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)  # (l,)
    column = tl.program_id(1) * BLOCK_S + tl.arange(0, BLOCK_S)  # (s,)
    d = tl.arange(0, D)
    real, inside = row[:, None] < L, column[:, None] < S
    q = tl.load(Q + row[:, None] * q_l + d[None, :], real, 0.0)
    k = tl.load(K + column[:, None] * k_s + d[None, :], inside, 0.0)
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # (l, s)
    if IS_CAUSAL:
        future = column[None, :] > row[:, None]
        s = tl.where(future, -float("inf"), s)
    place = OUT + row[:, None] * o_l + column[None, :]
    tl.store(place, s, real & (column[None, :] < S))


@triton.jit
def attention_forward_kernel(
    Q, K, V, OUT, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, o_h, o_l,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Compute FlashAttention forward, ``BLOCK_L`` queries a program.

    A program computes block ``tl.program_id(0)`` of the queries of head
    ``tl.program_id(1)``: it loads the keys and values of head ``head //
    GROUP``, ``BLOCK_S`` at a time, each tile once, with a maximum, a
    sum and an output for each row, in float32. With ``IS_CAUSAL`` query
    i is at position ``i + q_offset`` and attends to the keys up to
    there; a fully masked one gives 0. L and S need not be multiples of
    a block; each tensor has its own strides. Masked lanes without
    ``other=`` are NaN; outside the tensors nothing may be read or
    written.

    Args:
        Q, OUT: ``(H, L, D)``; D, a power of two, is the last axis.
        K, V: ``(H // GROUP, S, D)``.
        scale: on the scores.
        q_h, q_l, ...: elements from a head, or a token, to the next.
    """
    row = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)  # (l,)
    head, d = tl.program_id(1), tl.arange(0, D)
    K += head // GROUP * k_h
    V += head // GROUP * v_h
    real = row[:, None] < L
    place = Q + head * q_h + row[:, None] * q_l + d[None, :]
    q = tl.load(place, real, 0.0)  # (l, D)
    m_i = tl.full([BLOCK_L], -float("inf"), tl.float32)
    l_i = tl.zeros([BLOCK_L], tl.float32)
    out = tl.zeros([BLOCK_L, D], tl.float32)
    for start in range(0, S, BLOCK_S):
        column = start + tl.arange(0, BLOCK_S)  # (s,)
        inside = column[:, None] < S
        k = tl.load(K + column[:, None] * k_s + d[None, :], inside, 0.0)
        v = tl.load(V + column[:, None] * v_s + d[None, :], inside, 0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        mask = column[None, :] < S  # (l, s)
        if IS_CAUSAL:
            mask = mask & (column[None, :] <= row[:, None] + q_offset)
        s = tl.where(mask, s, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        base = tl.where(m_new == -float("inf"), 0.0, m_new)
        weights = tl.exp(s - base[:, None])
        alpha = tl.exp(m_i - base)
        l_i = l_i * alpha + tl.sum(weights, 1)
        part = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        out = out * alpha[:, None] + part
        m_i = m_new
    out = out / tl.where(l_i > 0, l_i, 1.0)[:, None]
    place = OUT + head * o_h + row[:, None] * o_l + d[None, :]
    tl.store(place, out, real)


def causal_ranges(
    first: int, last: int, kv_len: int, block_s: int
) -> tuple[range, range]:
    """Find the tiles that a block of queries needs, masked or not.

    The queries have the positions ``first`` to ``last``; each attends
    to the keys up to its own. Tile n holds the keys ``n * block_s`` to
    ``(n + 1) * block_s - 1``, as far as there are keys. A tile is
    *whole* if it is full of keys and every query attends to them all,
    so that its scores need no mask; it is *cut* if it is not whole and
    some pair is allowed; the others are skipped.

    Args:
        first, last: positions, the first at most the last; negative
            ones are before all keys.
        kv_len: number of keys.
        block_s: keys of a tile.

    Returns:
        The indices of the whole tiles, and those of the cut ones, which
        come right after them. Either range may be empty.
    """
    whole = max(min(first + 1, kv_len) // block_s, 0)
    end = -(-min(last + 1, kv_len) // block_s)
    return range(whole), range(whole, max(end, whole))
