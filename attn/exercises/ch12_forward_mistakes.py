"""Wrong and right answers to ``fwd-attention_forward_kernel``."""

from __future__ import annotations

from attn.exercises.ch12_forward import exercise
from attn.exercises.triton_compat import tl, triton

# --- one kernel whose steps can be wrong -------------------------------------


@triton.jit
def _walk(
    Q, K, V, OUT, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, o_h, o_l,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr, FAULT: tl.constexpr,
):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1)
    kv_head = head // GROUP
    if FAULT == "tile order":
        kv_head = head % (tl.num_programs(1) // GROUP)
    if FAULT == "own key head":
        kv_head = head
    if FAULT == "first head":
        kv_head = 0
    row = block * BLOCK_L + tl.arange(0, BLOCK_L)
    d = tl.arange(0, D)
    if FAULT == "k for v":
        v_h, v_s = k_h, k_s
    if FAULT == "q for k":
        k_h, k_s, v_h, v_s = q_h, q_l, q_h, q_l
    if FAULT == "q for out":
        o_h, o_l = q_h, q_l
    K += kv_head * k_h
    V += kv_head * v_h
    real = row[:, None] < L
    place = Q + head * q_h + row[:, None] * q_l + d[None, :]
    q = tl.load(place, real, 0.0)
    if FAULT == "root of D":
        scale = 1.0 / tl.sqrt(D * 1.0)
    if FAULT == "no scale":
        scale = 1.0
    top = tl.full([BLOCK_L], -float("inf"), tl.float32)
    if FAULT == "top is 0":
        top = tl.zeros([BLOCK_L], tl.float32) - 30.0
    total = tl.zeros([BLOCK_L], tl.float32)
    out = tl.zeros([BLOCK_L, D], tl.float32)
    end = S
    if FAULT == "whole tiles":
        end = S // BLOCK_S * BLOCK_S
    if FAULT == "stops early" and IS_CAUSAL:
        end = tl.minimum(S, block * BLOCK_L + q_offset)
    if FAULT == "first tile":
        end = tl.minimum(S, BLOCK_S)
    for start in range(0, end, BLOCK_S):
        column = start + tl.arange(0, BLOCK_S)
        inside = column[:, None] < S
        k = tl.load(K + column[:, None] * k_s + d[None, :], inside, 0.0)
        place = V + column[:, None] * v_s + d[None, :]
        if FAULT == "v without other":
            v = tl.load(place, inside)
        elif FAULT == "v without mask":
            v = tl.load(place)
        else:
            v = tl.load(place, inside, 0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        seen = column[None, :] < S
        if FAULT == "ragged keys":
            seen = column[None, :] >= 0
        position = row[:, None]
        if FAULT == "lower right":
            position = row[:, None] + S - L
        elif FAULT == "minus offset":
            position = row[:, None] - q_offset
        elif FAULT != "no offset":
            position = row[:, None] + q_offset
        if IS_CAUSAL and FAULT != "not causal":
            if FAULT == "strict":
                seen = seen & (column[None, :] < position)
            elif FAULT == "in each tile":
                own = tl.arange(0, BLOCK_S)[None, :]
                seen = seen & (own <= tl.arange(0, BLOCK_L)[:, None])
            elif FAULT == "anti-causal":
                seen = seen & (column[None, :] >= position)
            else:
                seen = seen & (column[None, :] <= position)
        if FAULT == "zeros":
            s = tl.where(seen, s, 0.0)
        elif FAULT == "large number":
            s = tl.where(seen, s, -1.0e30)
        else:
            s = tl.where(seen, s, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        if FAULT == "own top":
            new = tl.max(s, 1)
        base = tl.where(new == -float("inf"), 0.0, new)
        if FAULT == "base 2":
            weights = tl.math.exp2(s - base[:, None])
            fade = tl.math.exp2(top - base)
        else:
            weights = tl.exp(s - base[:, None])
            fade = tl.exp(top - base)
        if FAULT == "no correction":
            fade = tl.where(fade < 2.0, 1.0, 1.0)
        if FAULT == "total not corrected":
            total = total + tl.sum(weights, 1)
        else:
            total = total * fade + tl.sum(weights, 1)
        part = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        if FAULT == "half":
            part = part.to(tl.float16).to(tl.float32)
        if FAULT == "out not corrected":
            out = out + part
        else:
            out = out * fade[:, None] + part
        if FAULT == "half":
            out = out.to(tl.float16).to(tl.float32)
        top = new
    if FAULT == "0 / 0":
        out = out / total[:, None]
    elif FAULT != "not divided":
        out = out / tl.where(total > 0, total, 1.0)[:, None]
    place = OUT + head * o_h + row[:, None] * o_l + d[None, :]
    if FAULT == "store all":
        tl.store(place, out)
    else:
        tl.store(place, out, real)


_LISTED = (
    (
        "no scale",
        "scale is not used",
        "any input",
        "The scores are bare dot products. Which argument do they have to be "
        "multiplied by?",
    ),
    (
        "root of D",
        "1 / sqrt(D) in the place of scale",
        "any input",
        "The scale is an argument: a caller may want another one. Where is "
        "it used?",
    ),
    (
        "base 2",
        "exp2 without log2(e)",
        "any input",
        "2 ** x in the place of e ** x: a softmax at another temperature. "
        "Kernels use exp2, and fold log2(e) = 1.4427 into the scale. Where is "
        "that factor?",
    ),
    (
        "not divided",
        "never divided by the sum",
        "any input",
        "The weights of a row do not sum to 1. What is left to do after the "
        "last tile?",
    ),
    (
        "first tile",
        "only the first tile of keys",
        "several tiles of keys",
        "The loop ends after BLOCK_S keys. How many are there?",
    ),
    (
        "out not corrected",
        "the output is not corrected",
        "scores that rise from tile to tile",
        "When a tile brings a larger score, total shrinks and out does not. "
        "Which factor takes both from the old maximum to the new one?",
    ),
    (
        "total not corrected",
        "the sum is not corrected",
        "scores that rise from tile to tile",
        "When a tile brings a larger score, out shrinks and total does not. "
        "Which factor takes both from the old maximum to the new one?",
    ),
    (
        "no correction",
        "nothing is corrected",
        "scores that rise from tile to tile",
        "Tiles that were measured from different maxima are added up. By "
        "which factor is what came before too large, when the maximum rises?",
    ),
    (
        "own top",
        "the maximum of this tile alone",
        "scores that fall from tile to tile",
        "top has to be the largest score so far. This takes the largest of "
        "the tile, and when scores fall, fade grows without bounds. Which of "
        "the two is larger: top, or the tile's maximum?",
    ),
    (
        "tile order",
        "key head h % Hkv",
        "GQA with more than one key head",
        "Key heads are handed out in turns, 0 1 0 1. Neighbours share: "
        "0 0 1 1. Which operation on head gives that?",
    ),
    (
        "first head",
        "all heads read the first key head",
        "several heads",
        "K and V are not moved to a head. How far apart are their heads in "
        "memory?",
    ),
    (
        "own key head",
        "key head h",
        "GQA",
        "Query head h reads key head h, and there are fewer of those: the "
        "program reads behind the tensor. How many query heads share one?",
    ),
    (
        "k for v",
        "K's strides for V",
        "tensors with strides of their own",
        "K and V are often equally laid out, and need not be. Which strides "
        "are V's?",
    ),
    (
        "q for k",
        "Q's strides for K and V",
        "tensors with strides of their own",
        "In self-attention all three are equally laid out, here they are not. "
        "Which strides are K's, and which V's?",
    ),
    (
        "q for out",
        "Q's strides for OUT",
        "tensors with strides of their own",
        "The result is a tensor of its own. Which strides are OUT's?",
    ),
    (
        "ragged keys",
        "lanes behind the last key take part",
        "keys that end inside a tile",
        "Lanes beyond S were loaded as zeros, so their scores are 0, and each "
        "takes a share of the weights. Which lanes are keys?",
    ),
    (
        "whole tiles",
        "the rest behind the last whole tile is left out",
        "keys that end inside a tile",
        "S // BLOCK_S tiles leave out the keys behind them. In a test with "
        "round numbers there are none. Where does range(0, S, BLOCK_S) "
        "stop?",
    ),
    (
        "v without other",
        "V is loaded without other",
        "keys that end inside a tile",
        "The weights of the lanes beyond S are 0, and their values are "
        "undefined: NaN here, and anything on a GPU. 0 * NaN is NaN. What "
        "does tl.load's third argument do?",
    ),
    (
        "v without mask",
        "V is loaded without a mask",
        "keys that end inside a tile",
        "The weights of the lanes beyond S are 0, but V is read there: what "
        "lies behind the tensor, NaN here, and 0 * NaN is NaN. Which lanes "
        "may be read?",
    ),
    (
        "store all",
        "a store without a mask",
        "queries that end inside a block",
        "The last block has fewer than BLOCK_L queries, and all are stored: "
        "over what lies behind the result. Which rows exist?",
    ),
    (
        "not causal",
        "IS_CAUSAL is ignored",
        "is_causal",
        "Every query sees every key. Where in your loop does IS_CAUSAL occur?",
    ),
    (
        "strict",
        "a token does not see itself",
        "is_causal",
        "column < row leaves out the diagonal. Does a token see itself?",
    ),
    (
        "anti-causal",
        "the past is hidden, and not the future",
        "is_causal",
        "The comparison is turned round: query i sees the keys from i on. "
        "Which keys are the past?",
    ),
    (
        "in each tile",
        "causal within each tile",
        "is_causal in many tiles",
        "A triangle is laid over every tile, as if rows and columns of a tile "
        "both started at 0. What are the positions of its first query and its "
        "first key?",
    ),
    (
        "stops early",
        "stops before the diagonal",
        "is_causal",
        "The loop ends at the block's first query, so the tiles on the "
        "diagonal are left out. How far does the last query of the block "
        "see?",
    ),
    (
        "zeros",
        "hidden scores are 0",
        "is_causal",
        "exp(0) is 1: what is hidden takes part, with a score of 0. Which "
        "score has the weight 0?",
    ),
    (
        "no offset",
        "q_offset is ignored",
        "queries that are the last tokens",
        "Query i stands at i + q_offset. Where is that added?",
    ),
    (
        "minus offset",
        "q_offset is subtracted",
        "queries that are the last tokens",
        "Query i stands at i + q_offset: with an offset of 30 the first query "
        "sees 31 keys. How many do you get?",
    ),
    (
        "lower right",
        "S - L in the place of q_offset",
        "any offset but S - L",
        "The last query is taken to see the last key. That is one offset of "
        "many. Which argument says where the first query stands?",
    ),
    (
        "0 / 0",
        "NaN for a query that sees nothing",
        "a row that sees nothing",
        "Its maximum is minus infinity, and -inf - -inf is NaN; its sum is 0, "
        "and 0 / 0 is NaN as well. Which finite number may be put in the "
        "place of each, so that the row is 0?",
    ),
    (
        "large number",
        "hidden scores are a large negative number",
        "a row that sees nothing",
        "Where a row sees nothing, -1e30 is its maximum, exp(0) = 1, and it "
        "averages what is hidden. Which score stays 0 even then?",
    ),
    (
        "top is 0",
        "the maximum starts at a finite number",
        "very negative scores",
        "The largest score so far starts at -30, as if one had been seen. In "
        "a row whose scores all lie far below, every weight is exp(-100) or "
        "0. What is the maximum of nothing?",
    ),
    (
        "half",
        "the output is summed in float16",
        "float16",
        "Each tile's part is rounded to half precision before it is added. "
        "tl.dot gives float32: where does the accumulator get its dtype?",
    ),
)


def _faulty(fault: str):
    def answer(grid, *args, **kwargs):
        _walk[grid](*args, **kwargs, FAULT=fault)

    return answer


for _fault, _name, _input, _why in _LISTED:
    _answer = _faulty(_fault)
    _answer.__doc__ = _why
    exercise.misconception(_name, exposed_by=_input)(_answer)


# --- right, in other styles --------------------------------------------------


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
    m = tl.full([BLOCK_L], float("-inf"), tl.float32)
    total = tl.full([BLOCK_L], 1.0, tl.float32)
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
        m_new = tl.maximum(m, tl.max(s, 1))
        safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.math.exp2(s - safe[:, None])
        alpha = tl.math.exp2(m - safe)
        v = tl.load(
            V + col[:, None] * v_s + d[None, :],
            mask=(col < S)[:, None],
            other=0.0,
        )
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(v.dtype), v, acc)
        total = total * alpha + tl.sum(p, 1)
        m = m_new
    total = tl.where(m == float("-inf"), 1.0, total)
    acc = acc / total[:, None]
    tl.store(
        OUT + h * o_h + row[:, None] * o_l + d,
        acc.to(OUT.dtype.element_ty),
        mask=inside[:, None],
    )


@exercise.equivalent("two passes: the maximum first")
@triton.jit
def _two_passes(
    Q, K, V, OUT, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, o_h, o_l,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    start, h = tl.program_id(0) * BLOCK_L, tl.program_id(1)
    row, d = start + tl.arange(0, BLOCK_L)[:, None], tl.arange(0, D)[None, :]
    q = tl.load(Q + h * q_h + row * q_l + d, row < L, 0.0)
    top = tl.full([BLOCK_L, 1], -1.0e30, tl.float32)
    for j in range(0, S, BLOCK_S):
        col = j + tl.arange(0, BLOCK_S)
        k = tl.load(
            K + h // GROUP * k_h + col[:, None] * k_s + d,
            col[:, None] < S,
            0.0,
        )
        s = tl.dot(q, tl.trans(k)) * scale
        ok = col[None, :] < S
        if IS_CAUSAL:
            ok = ok & (row + q_offset >= col[None, :])
        s = tl.where(ok, s, -1.0e30)
        top = tl.maximum(top, tl.max(s, 1, keep_dims=True))
    total = tl.zeros([BLOCK_L, 1], tl.float32)
    out = tl.zeros([BLOCK_L, D], tl.float32)
    for j in range(0, S, BLOCK_S):
        col = j + tl.arange(0, BLOCK_S)
        k = tl.load(
            K + h // GROUP * k_h + col[:, None] * k_s + d,
            col[:, None] < S,
            0.0,
        )
        v = tl.load(
            V + h // GROUP * v_h + col[:, None] * v_s + d,
            col[:, None] < S,
            0.0,
        )
        s = tl.dot(q, tl.trans(k)) * scale
        ok = col[None, :] < S
        if IS_CAUSAL:
            ok = ok & (row + q_offset >= col[None, :])
        w = tl.where(ok, tl.exp(s - top), 0.0)
        total += tl.sum(w, 1, keep_dims=True)
        out += tl.dot(w.to(v.dtype), v)
    out = tl.where(total > 0.0, out / total, 0.0)
    tl.store(OUT + h * o_h + row * o_l + d, out, row < L)


@triton.jit
def _load(P, head, token, h_stride, stride, count, D: tl.constexpr):
    d = tl.arange(0, D)
    place = P + head * h_stride + token[:, None] * stride + d[None, :]
    return tl.load(place, mask=token[:, None] < count, other=0.0)


@exercise.equivalent("a helper loads, and queries are scaled")
@triton.jit
def _helper(
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
        top = tl.maximum(lse, tl.max(s, 1))
        safe = tl.where(top == -float("inf"), 0.0, top)
        before = tl.exp(lse - safe)
        w = tl.exp(s - safe[:, None])
        both = before + tl.sum(w, 1)
        part = tl.dot(w, v, input_precision="ieee")
        out = out * before[:, None] + part
        out = out / tl.where(both > 0.0, both, 1.0)[:, None]
        lse = tl.where(both > 0.0, safe + tl.log(both), -float("inf"))
    place = OUT + h * o_h + row[:, None] * o_l + tl.arange(0, D)[None, :]
    tl.store(place, out, mask=row[:, None] < L)
