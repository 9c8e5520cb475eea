"""``sdpa-scaled_dot_product_attention``: what people write, wrong and right.

Each is the same pipeline with one step of another kind.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.exercises.ch08_attention import INF, exercise


def _scale(scale: float | None, query: Tensor, value: Tensor) -> float:
    return query.shape[-1] ** -0.5 if scale is None else scale


def _share(x: Tensor, group: int) -> Tensor:
    return x.repeat_interleave(group, -3)


def _hide(scores: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return scores.masked_fill(~mask, -INF)
    return scores + mask.to(scores.dtype)


def _corner(q_len: int, kv_len: int) -> Tensor:
    return torch.ones(q_len, kv_len).tril().bool()


def _weigh(scores: Tensor) -> Tensor:
    dead = (scores == -INF).all(-1, keepdim=True)
    return scores.masked_fill(dead, 0).softmax(-1).masked_fill(dead, 0)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    scaled: Any = _scale,
    share: Any = _share,
    hide: Any = _hide,
    corner: Any = _corner,
    weigh: Any = _weigh,
    drop: Any = F.dropout,
    wide: bool = True,
) -> Tensor:
    """The right answer, every step of which can be exchanged."""
    dtype = query.dtype
    if wide:
        dtype = torch.promote_types(dtype, torch.float32)
    q, k, v = (x.to(dtype) for x in (query, key, value))
    if enable_gqa:
        group = q.shape[-3] // k.shape[-3]
        k, v = share(k, group), share(v, group)
    scores = q @ k.mT * scaled(scale, query, value)
    if attn_mask is not None:
        scores = hide(scores, attn_mask)
    if is_causal:
        scores = scores.masked_fill(~corner(*scores.shape[-2:]), -INF)
    return (drop(weigh(scores), dropout_p) @ v).to(query.dtype)


# ------------------------------------------------------------------ scale


@exercise.misconception("no scale by default", exposed_by="D = 8")
def no_scale(*args, **kwargs):
    """With scale=None the scores are used as they are. What should None
    stand for?"""
    return _attend(
        *args, scaled=lambda s, q, v: 1.0 if s is None else s, **kwargs
    )


@exercise.misconception("scaled by D, not by its root", exposed_by="D = 8")
def by_width(*args, **kwargs):
    """1 / D makes the attention too even. The variance of a sum of D terms
    is D: and its standard deviation?"""
    return _attend(
        *args,
        scaled=lambda s, q, v: 1 / q.shape[-1] if s is None else s,
        **kwargs,
    )


@exercise.misconception(
    "scaled by the width of value", exposed_by="Dv and D that differ"
)
def by_value_width(*args, **kwargs):
    """The scale uses value's last axis. Nearly every model has Dv = D, so
    this sleeps until one does not. Which tensors are in the dot
    product?"""
    return _attend(
        *args,
        scaled=lambda s, q, v: v.shape[-1] ** -0.5 if s is None else s,
        **kwargs,
    )


@exercise.misconception("scale is ignored", exposed_by="scale=0.2")
def scale_ignored(*args, **kwargs):
    """Whatever the caller asks for, 1 / sqrt(D) is used. Models that set
    their own scale load without an error and answer badly. Where does your
    code read scale?"""
    return _attend(*args, scaled=lambda s, q, v: q.shape[-1] ** -0.5, **kwargs)


@exercise.misconception("a scale of 0.0 is lost", exposed_by="scale=0.0")
def zero_lost(*args, **kwargs):
    """`scale or default` takes 0.0 for "not given", because 0.0 is false in
    Python. How do you ask for None and nothing else?"""
    return _attend(
        *args, scaled=lambda s, q, v: s or q.shape[-1] ** -0.5, **kwargs
    )


@exercise.misconception(
    "scale comes on top of 1 / sqrt(D)", exposed_by="scale=0.2"
)
def scale_on_top(*args, **kwargs):
    """A given scale replaces the default; here both apply. What should the
    caller write to get raw scores?"""
    return _attend(
        *args,
        scaled=lambda s, q, v: q.shape[-1] ** -0.5 * (1 if s is None else s),
        **kwargs,
    )


@exercise.misconception("divided by scale", exposed_by="scale=0.2")
def divided_by_scale(*args, **kwargs):
    """scale is a factor, and 1 / sqrt(D) its default: the scores are
    multiplied by it. What happens to your scores when scale is 0.0?"""

    def factor(s, q, v):
        root = q.new_tensor(q.shape[-1] ** 0.5 if s is None else s)
        return 1 / root.float()

    return _attend(*args, scaled=factor, **kwargs)


# ------------------------------------------------------------------- mask


@exercise.misconception(
    "True is taken for forbidden", exposed_by="a bool mask"
)
def inverted(*args, **kwargs):
    """nn.MultiheadAttention means "ignore" by True, and this function "may
    attend": the two live in one library. Which entries does masked_fill
    fill?"""

    def hide(scores, mask):
        if mask.dtype == torch.bool:
            return scores.masked_fill(mask, -INF)
        return _hide(scores, mask)

    return _attend(*args, hide=hide, **kwargs)


@exercise.misconception(
    "a bool mask is added like numbers", exposed_by="a bool mask"
)
def bool_added(*args, **kwargs):
    """scores + mask takes True as 1 and False as 0: allowed keys are
    favoured a little, and nothing is forbidden. How do you tell the two
    kinds of mask apart?"""
    return _attend(*args, hide=lambda s, m: s + m, **kwargs)


@exercise.misconception(
    "a mask of numbers is taken for a bool one", exposed_by="a float mask"
)
def numbers_as_bool(*args, **kwargs):
    """mask == 0 or mask.bool() looks at numbers as yes and no: an ALiBi or
    T5 bias becomes a mask of nothing, or of everything. What happens to a
    bias of 0.3 in your code?"""
    return _attend(
        *args,
        hide=lambda s, m: s.masked_fill(
            ~m if m.dtype == torch.bool else m == 0, -INF
        ),
        **kwargs,
    )


@exercise.misconception(
    "only minus infinity counts in a mask of numbers",
    exposed_by="finite numbers in a mask",
)
def only_infinity(*args, **kwargs):
    """The entries that are -inf are hidden, and all others are dropped: a
    position bias has no effect. What should happen to finite numbers?"""
    return _attend(
        *args,
        hide=lambda s, m: s.masked_fill(
            ~m if m.dtype == torch.bool else m == -INF, -INF
        ),
        **kwargs,
    )


@exercise.misconception(
    "a mask of numbers is multiplied", exposed_by="a float mask"
)
def multiplied(*args, **kwargs):
    """Scores times mask: 0 does not forbid anything (exp(0) = 1), and -inf
    times a score can be +inf or NaN. What does the docstring say that
    happens to the numbers?"""

    def hide(scores, mask):
        if mask.dtype == torch.bool:
            return _hide(scores, mask)
        return scores * mask

    return _attend(*args, hide=hide, **kwargs)


@exercise.misconception(
    "the numbers are added before the scale", exposed_by="a float mask"
)
def added_before_scale(query, key, value, attn_mask=None, *args, **kwargs):
    """(q @ k.T + mask) * scale shrinks the bias by sqrt(D), and a scale of
    0.2 by five. The numbers belong on top of the scaled scores. In which
    line do you multiply?"""
    scale = kwargs.get("scale")
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        attn_mask = attn_mask * _scale(scale, query, value)
    return _attend(query, key, value, attn_mask, *args, **kwargs)


@exercise.misconception("attn_mask is ignored", exposed_by="any mask")
def mask_ignored(*args, **kwargs):
    """The argument is accepted and never read, as in a published tutorial.
    Where does your code use it?"""
    return _attend(*args, hide=lambda s, m: s, **kwargs)


@exercise.misconception("masked after the softmax", exposed_by="a bool mask")
def after_softmax(query, key, value, attn_mask=None, *args, **kwargs):
    """Weights are set to 0 and the rest no longer sums to 1: hidden keys
    have had their say in the denominator. What has to be hidden, the score
    or the weight?"""
    if attn_mask is None or attn_mask.dtype != torch.bool:
        return _attend(query, key, value, attn_mask, *args, **kwargs)
    return _attend(
        query,
        key,
        value,
        None,
        *args,
        drop=lambda w, p: F.dropout(w * attn_mask, p),
        **kwargs,
    )


# ----------------------------------------------------------------- causal


@exercise.misconception("is_causal is ignored", exposed_by="is_causal=True")
def causal_ignored(*args, **kwargs):
    """Every query sees the future. Where does your code read is_causal?"""
    return _attend(
        *args, corner=lambda n, m: torch.ones(n, m).bool(), **kwargs
    )


@exercise.misconception(
    "is_causal counts from the lower right", exposed_by="L and S that differ"
)
def lower_right(*args, **kwargs):
    """The queries are taken for the last tokens. That is what a decoder
    with a cache needs, and your next exercise; torch's is_causal lets query
    i see keys 0 to i, whatever the lengths. Which corner is it?"""
    return _attend(
        *args,
        corner=lambda n, m: torch.ones(n, m).tril(m - n).bool(),
        **kwargs,
    )


@exercise.misconception(
    "a token does not see itself", exposed_by="is_causal=True"
)
def without_itself(*args, **kwargs):
    """The diagonal is hidden as well, so query 0 sees nothing. May position
    i attend to position i?"""
    return _attend(
        *args, corner=lambda n, m: torch.ones(n, m).tril(-1).bool(), **kwargs
    )


@exercise.misconception(
    "one token of the future is seen", exposed_by="is_causal=True"
)
def one_ahead(*args, **kwargs):
    """Each query sees the token after it: the answer that it should guess.
    Which diagonal is the last one allowed?"""
    return _attend(
        *args, corner=lambda n, m: torch.ones(n, m).tril(1).bool(), **kwargs
    )


@exercise.misconception(
    "the past is hidden, not the future", exposed_by="is_causal=True"
)
def backwards(*args, **kwargs):
    """triu keeps the future. Which half of the square lies below the
    diagonal?"""
    return _attend(
        *args, corner=lambda n, m: torch.ones(n, m).triu().bool(), **kwargs
    )


@exercise.misconception(
    "a mask switches is_causal off", exposed_by="is_causal with a mask"
)
def mask_wins(query, key, value, attn_mask=None, dropout_p=0.0,
              is_causal=False, *args, **kwargs):  # fmt: skip
    """if attn_mask … elif is_causal: the future is open as soon as there is
    padding. Both apply. Are your two ifs independent?"""
    causal = is_causal and attn_mask is None
    return _attend(
        query, key, value, attn_mask, dropout_p, causal, *args, **kwargs
    )


@exercise.misconception(
    "is_causal switches the mask off", exposed_by="is_causal with a mask"
)
def causal_wins(query, key, value, attn_mask=None, dropout_p=0.0,
                is_causal=False, *args, **kwargs):  # fmt: skip
    """if is_causal … elif attn_mask: the padding is read again as soon as
    the model is causal. Both apply. Are your two ifs independent?"""
    mask = None if is_causal else attn_mask
    return _attend(
        query, key, value, mask, dropout_p, is_causal, *args, **kwargs
    )


# -------------------------------------------------------------- dead rows


@exercise.misconception(
    "a query without a key gives NaN", exposed_by="a row of False"
)
def dead_nan(*args, **kwargs):
    """A softmax over minus infinities is 0 / 0. One padded row is enough,
    and the next layer spreads it: 0 · NaN is NaN. What should a query get
    that may attend to nothing?"""
    return _attend(*args, weigh=lambda s: s.softmax(-1), **kwargs)


@exercise.misconception(
    "a query without a key gets the mean of the values",
    exposed_by="a row of False",
)
def dead_mean(*args, **kwargs):
    """With the lowest number of the dtype (or -1e9) instead of -inf, a row
    in which all is forbidden is a row in which all is equal: it averages
    everything, padding included, and hides it well. What should a query get
    that may attend to nothing?"""

    def weigh(scores):
        return scores.clamp_min(torch.finfo(scores.dtype).min).softmax(-1)

    return _attend(*args, weigh=weigh, **kwargs)


@exercise.misconception(
    "NaN is replaced after the softmax", exposed_by="the gradient"
)
def nan_to_num(*args, **kwargs):
    """nan_to_num makes the result right, and leaves the gradient NaN where
    the mask was added: the derivative of the softmax is taken at the NaN.
    Training dies one step later. How can you keep the NaN from ever being
    made?"""
    return _attend(
        *args, weigh=lambda s: s.softmax(-1).nan_to_num(0.0), **kwargs
    )


# -------------------------------------------------------------------- GQA


@exercise.misconception(
    "the shared heads are repeated in turn: 0, 1, 0, 1",
    exposed_by="enable_gqa with two key heads",
)
def tiled(*args, **kwargs):
    """repeat puts whole copies side by side, so query head 1 reads key head
    1. Query head h belongs to key head h // G: 0, 0, 1, 1. Which function
    repeats each head in its place?"""

    def share(x, group):
        return torch.cat([x] * group, -3)

    return _attend(*args, share=share, **kwargs)


@exercise.misconception(
    "enable_gqa is ignored", exposed_by="fewer key heads than query heads"
)
def gqa_ignored(*args, **kwargs):
    """The head axes do not fit, and a matrix product says so, unless there
    is one key head, which broadcasts. What has to happen to keys and values
    before the scores?"""
    return _attend(*args, share=lambda x, group: x, **kwargs)


# ---------------------------------------------------------------- dropout


@exercise.misconception("dropout_p is ignored", exposed_by="dropout_p=1.0")
def no_dropout(*args, **kwargs):
    """The weights are never dropped. (Or dropout waits for a training mode,
    which a function does not have: it always applies.) Where does your code
    read dropout_p?"""
    return _attend(*args, drop=lambda w, p: w, **kwargs)


@exercise.misconception(
    "what is not dropped does not grow", exposed_by="dropout_p=0.8"
)
def no_growth(*args, **kwargs):
    """Weights are dropped and the others stay as they are, so that the
    output shrinks by 1 - p on average. By what must the rest be
    divided?"""
    return _attend(
        *args, drop=lambda w, p: F.dropout(w, p) * (1 - p), **kwargs
    )


@exercise.misconception(
    "the scores are dropped, not the weights", exposed_by="dropout_p=0.8"
)
def scores_dropped(*args, **kwargs):
    """A score of 0 is not a weight of 0: a dropped key still takes part,
    and with p = 1 all keys are equal. On which side of the softmax does
    dropout stand?"""
    p = kwargs.pop("dropout_p", 0.0)
    return _attend(*args, weigh=lambda s: _weigh(F.dropout(s, p)), **kwargs)


@exercise.misconception(
    "the output is dropped, not the weights", exposed_by="dropout_p=0.8"
)
def output_dropped(*args, **kwargs):
    """Dropping numbers of the result leaves each weight alone: a query
    loses features, instead of keys. What does dropout_p belong to?"""
    p = kwargs.pop("dropout_p", 0.0)
    return F.dropout(_attend(*args, **kwargs), p)


# -------------------------------------------------- softmax and precision


@exercise.misconception(
    "the softmax runs over the queries", exposed_by="one key, many queries"
)
def over_queries(*args, **kwargs):
    """dim=-2: each key shares itself out among the queries. Along which
    axis do the weights of one query lie?"""

    def weigh(scores):
        return scores.softmax(-2).nan_to_num(0.0)

    return _attend(*args, weigh=weigh, **kwargs)


@exercise.misconception("no maximum is taken off", exposed_by="scores of 1000")
def overflow(*args, **kwargs):
    """exp of a large score is inf, and inf / inf is NaN. You have solved
    this in chapter 2: can your softmax, or torch's, be used here?"""

    def weigh(scores):
        exps = scores.exp()
        total = exps.sum(-1, keepdim=True)
        return torch.where(total > 0, exps / total, torch.zeros(()))

    return _attend(*args, weigh=weigh, **kwargs)


@exercise.misconception(
    "half precision is computed in half precision",
    exposed_by="scores above 65504",
)
def narrow(*args, **kwargs):
    """float16 ends at 65504, and a dot product of a few large numbers does
    not: inf - inf is NaN in the softmax. Which dtype should scores and
    softmax have?"""

    def hide(scores, mask):
        mask = mask if mask.dtype == torch.bool else mask.to(scores.dtype)
        return _hide(scores, mask)

    return _attend(*args, wide=False, hide=hide, **kwargs)


@exercise.misconception(
    "half precision comes back as float32", exposed_by="bfloat16 inputs"
)
def stays_float(query, key, value, *args, **kwargs):
    """The result has another dtype than its inputs: the next matrix
    product, with bfloat16 weights, raises an error. What was
    query.dtype?"""
    dtype = torch.promote_types(query.dtype, torch.float32)
    q, k, v = (x.to(dtype) for x in (query, key, value))
    return _attend(q, k, v, *args, **kwargs)


@exercise.misconception(
    "the weights come back too", exposed_by="any input: a tuple of two"
)
def weights_too(query, key, value, *args, **kwargs):
    """Many implementations return (output, weights); this one returns the
    output alone, so that it can be swapped for torch's. What does the
    Returns line say?"""
    return _attend(query, key, value, *args, **kwargs), query


@exercise.misconception(
    "the result is cut off from the gradient",
    exposed_by="inputs that ask for their gradient",
)
def detached(query, *args, **kwargs):
    """The numbers are right and autograd knows nothing of them: .item(),
    .data, .detach(), .numpy() or no_grad cut the thread. Which line leaves
    torch?"""
    with torch.no_grad():
        return _attend(query, *args, **kwargs)


# ------------------------------------------------------------ equivalents


@exercise.equivalent("one additive bias for everything")
def _bias(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
          scale=None, enable_gqa=False):  # fmt: skip
    L, S = query.shape[-2], key.shape[-2]  # noqa: N806
    wide = torch.promote_types(query.dtype, torch.float32)
    bias = torch.zeros(L, S, dtype=wide)
    if is_causal:
        bias = bias.masked_fill(torch.ones(L, S).triu(1).bool(), -INF)
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            closed = torch.zeros(attn_mask.shape, dtype=wide)
            bias = bias + closed.masked_fill(~attn_mask, -INF)
        else:
            bias = bias + attn_mask
    if enable_gqa:
        group = query.size(-3) // key.size(-3)
        key, value = (
            x.unsqueeze(-3).expand(*x.shape[:-2], group, *x.shape[-2:])
            .flatten(-4, -3)
            for x in (key, value)
        )  # fmt: skip
    factor = query.size(-1) ** -0.5 if scale is None else scale
    scores = (query.to(wide) * factor) @ key.to(wide).transpose(-2, -1)
    scores = scores + bias
    top = scores.amax(-1, keepdim=True).detach()
    exps = (scores - top.masked_fill(top == -INF, 0)).exp()
    total = exps.sum(-1, keepdim=True)
    weights = exps / total.masked_fill(total == 0, 1)
    weights = torch.dropout(weights, dropout_p, train=True)
    return (weights @ value.to(wide)).to(query.dtype)


@exercise.equivalent("einsum, grouped, dropout by hand")
def _einsum(query, key, value, attn_mask=None, dropout_p=0.0,
            is_causal=False, scale=None, enable_gqa=False):  # fmt: skip
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    q, k, v = query.to(wide), key.to(wide), value.to(wide)
    lead = query.shape[:-2]
    if enable_gqa:
        k, v = (
            x.repeat_interleave(q.shape[-3] // x.shape[-3], dim=-3)
            for x in (k, v)
        )
    scores = torch.einsum("...ld,...sd->...ls", q, k)
    scores = scores * (1 / q.shape[-1] ** 0.5 if scale is None else scale)
    L, S = scores.shape[-2:]  # noqa: N806
    allowed = torch.ones(L, S, dtype=torch.bool).expand(*lead, L, S)
    if is_causal:
        rows = torch.arange(L)[:, None]
        allowed = allowed & (torch.arange(S) <= rows)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        allowed = allowed & attn_mask
    elif attn_mask is not None:
        allowed = allowed & (attn_mask > -INF)
        scores = scores + attn_mask.clamp_min(-1e30)
    scores = torch.where(allowed, scores, -1e38 if wide == torch.float32
                         else -1e300)  # fmt: skip
    weights = torch.where(allowed, scores.softmax(-1), 0.0)
    if dropout_p > 0:
        kept = torch.rand_like(weights) >= dropout_p
        weights = torch.where(kept, weights, 0.0)
        weights = weights / (1 - dropout_p) if dropout_p < 1 else weights * 0
    return torch.einsum("...ls,...sv->...lv", weights, v).to(query.dtype)


@exercise.equivalent("query by query, only over the keys that it sees")
def _rows(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
          scale=None, enable_gqa=False):  # fmt: skip
    wide = torch.promote_types(query.dtype, torch.float32)
    q, k, v = (x.to(wide) for x in (query, key, value))
    if enable_gqa:
        index = torch.arange(q.shape[-3]) // (q.shape[-3] // k.shape[-3])
        k, v = k.index_select(-3, index), v.index_select(-3, index)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    L, S = q.shape[-2], k.shape[-2]  # noqa: N806
    full = (*q.shape[:-1], S)
    out = []
    for i in range(L):
        scores = (q[..., i : i + 1, :] * k).sum(-1) * scale  # (..., S)
        if attn_mask is not None:
            row = attn_mask.expand(full)[..., i, :]
            if row.dtype == torch.bool:
                scores = torch.where(row, scores, -INF)
            else:
                scores = scores + row
        if is_causal:
            scores = torch.where(torch.arange(S) <= i, scores, -INF)
        dead = scores.isneginf().all(-1, keepdim=True)
        weights = torch.where(dead, torch.zeros_like(scores), scores)
        weights = weights.softmax(-1).masked_fill(dead, 0)
        weights = F.dropout(weights, p=dropout_p, training=True)
        out.append((weights[..., None] * v).sum(-2))
    return torch.stack(out, -2).to(query.dtype)


@exercise.equivalent("scores from the logarithm of their sum")
def _logsumexp(*args, **kwargs):
    def weigh(scores):
        dead = (scores == -INF).all(-1, keepdim=True)
        safe = scores.masked_fill(dead, 0.0)
        lse = safe.logsumexp(-1, keepdim=True)
        return (safe - lse).exp() * ~dead

    return _attend(*args, weigh=weigh, **kwargs)


@exercise.equivalent("in float64 throughout")
def _double(query, key, value, attn_mask=None, *args, **kwargs):
    q, k, v = (x.double() for x in (query, key, value))
    if attn_mask is not None and attn_mask.is_floating_point():
        attn_mask = attn_mask.double()
    return _attend(q, k, v, attn_mask, *args, **kwargs).to(query.dtype)


@exercise.equivalent("one key more, that nobody may see but the dead")
def _extra_key(*args, **kwargs):
    def weigh(scores):
        dead = (scores == -INF).all(-1, keepdim=True)
        column = torch.zeros_like(dead, dtype=scores.dtype)
        column = column.masked_fill(~dead, -INF)
        return torch.cat([scores, column], -1).softmax(-1)[..., :-1]

    return _attend(*args, weigh=weigh, **kwargs)
