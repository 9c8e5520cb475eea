"""The contract, its claims, and right answers in other styles."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import functional
from attn.exercises.conditions import dtypes, gradients, views
from attn.exercises.sdpa.contract import cases
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import OF_ATTENTION, heads


def _right_shape(case: Case, out: object) -> bool:
    query, _, value = case.args[:3]
    shape = (*query.shape[:-1], value.shape[-1])
    return isinstance(out, Tensor) and tuple(out.shape) == shape


exercise = Exercise(
    id="sdpa-scaled_dot_product_attention",
    points=3,
    reference=functional.scaled_dot_product_attention,
    cases=cases,
    also=(dtypes(torch.bfloat16, torch.half), views(), gradients()),
    forbids=("scaled_dot_product_attention",),
    properties=(
        Property(
            "The result should have the query's shape with the value's "
            "last axis, (..., H, L, Dv).",
            _right_shape,
        ),
        Property(
            "There is a NaN in the result. A softmax over minus infinities "
            "is 0 / 0, and infinity minus infinity has no value either.",
            lambda _case, out: not bool(out.isnan().any()),
        ),
    ),
    breaks={
        **OF_ATTENTION,
        "H = 1": heads,
        "p = 0.5": lambda c: c.kwargs.get("dropout_p", 0.5) not in (0.5, 1.0),
    },
)


def _options(
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
):
    """Return the options in the order of the task, given or default."""
    return attn_mask, dropout_p, is_causal, scale, enable_gqa


@exercise.equivalent("one additive bias for everything")
def _bias(query, key, value, *args, **kwargs):
    attn_mask, dropout_p, is_causal, scale, gqa = _options(*args, **kwargs)
    L, S = query.shape[-2], key.shape[-2]
    wide = torch.promote_types(query.dtype, torch.float32)
    bias = torch.zeros(L, S, dtype=wide)
    if is_causal:
        bias = bias.masked_fill(torch.ones(L, S).triu(1).bool(), -math.inf)
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            closed = torch.zeros(attn_mask.shape, dtype=wide)
            bias = bias + closed.masked_fill(~attn_mask, -math.inf)
        else:
            bias = bias + attn_mask
    if gqa:
        group = query.size(-3) // key.size(-3)
        shape = (*key.shape[:-2], group, -1, -1)
        key = key.unsqueeze(-3).expand(shape).flatten(-4, -3)
        value = value.unsqueeze(-3).expand(shape).flatten(-4, -3)
    factor = query.size(-1) ** -0.5 if scale is None else scale
    scores = (query.to(wide) * factor) @ key.to(wide).transpose(-2, -1)
    scores = scores + bias
    top = scores.amax(-1, keepdim=True).detach()
    exps = (scores - top.masked_fill(top == -math.inf, 0)).exp()
    total = exps.sum(-1, keepdim=True)
    weights = exps / total.masked_fill(total == 0, 1)
    weights = torch.dropout(weights, dropout_p, train=True)
    return (weights @ value.to(wide)).to(query.dtype)


@exercise.equivalent("einsum, grouped, dropout by hand")
def _einsum(query, key, value, *args, **kwargs):
    attn_mask, dropout_p, is_causal, scale, gqa = _options(*args, **kwargs)
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    q, k, v = query.to(wide), key.to(wide), value.to(wide)
    if gqa:
        k, v = (
            x.repeat_interleave(q.shape[-3] // x.shape[-3], dim=-3)
            for x in (k, v)
        )
    scores = torch.einsum("...ld,...sd->...ls", q, k)
    scores = scores * (1 / q.shape[-1] ** 0.5 if scale is None else scale)
    L, S = scores.shape[-2:]
    allowed = torch.ones(scores.shape, dtype=torch.bool)
    if is_causal:
        allowed = allowed & (torch.arange(S) <= torch.arange(L)[:, None])
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        allowed = allowed & attn_mask
    elif attn_mask is not None:
        allowed = allowed & (attn_mask > -math.inf)
        scores = scores + attn_mask.clamp_min(-1e30)
    lowest = -1e38 if wide == torch.float32 else -1e300
    weights = torch.where(allowed, scores, lowest).softmax(-1)
    weights = torch.where(allowed, weights, 0.0)
    if dropout_p > 0:
        kept = torch.rand_like(weights) >= dropout_p
        weights = torch.where(kept, weights, 0.0)
        weights = weights / (1 - dropout_p) if dropout_p < 1 else weights * 0
    return torch.einsum("...ls,...sv->...lv", weights, v).to(query.dtype)


@exercise.equivalent("query by query, only over the keys that it sees")
def _rows(query, key, value, *args, **kwargs):
    attn_mask, dropout_p, is_causal, scale, gqa = _options(*args, **kwargs)
    wide = torch.promote_types(query.dtype, torch.float32)
    q, k, v = (x.to(wide) for x in (query, key, value))
    if gqa:
        index = torch.arange(q.shape[-3]) // (q.shape[-3] // k.shape[-3])
        k, v = k.index_select(-3, index), v.index_select(-3, index)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    L, S = q.shape[-2], k.shape[-2]
    full = (*q.shape[:-1], S)
    out = []
    for i in range(L):
        scores = (q[..., i : i + 1, :] * k).sum(-1) * scale  # (..., S)
        if attn_mask is not None:
            row = attn_mask.expand(full)[..., i, :]
            if row.dtype == torch.bool:
                scores = torch.where(row, scores, -math.inf)
            else:
                scores = scores + row
        if is_causal:
            scores = torch.where(torch.arange(S) <= i, scores, -math.inf)
        dead = scores.isneginf().all(-1, keepdim=True)
        weights = torch.where(dead, torch.zeros_like(scores), scores)
        weights = weights.softmax(-1).masked_fill(dead, 0)
        weights = F.dropout(weights, p=dropout_p, training=True)
        out.append((weights[..., None] * v).sum(-2))
    return torch.stack(out, -2).to(query.dtype)


def _attend(softmax, query, key, value, *args, **kwargs):
    """Attend with a softmax that copes with rows of minus infinity."""
    attn_mask, dropout_p, is_causal, scale, gqa = _options(*args, **kwargs)
    wide = torch.promote_types(query.dtype, torch.float32)
    q, k, v = (x.to(wide) for x in (query, key, value))
    if gqa:
        k = functional.repeat_kv(k, q.shape[-3] // k.shape[-3])
        v = functional.repeat_kv(v, q.shape[-3] // v.shape[-3])
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        future = torch.ones(scores.shape[-2:]).triu(1).bool()
        scores = scores.masked_fill(future, -math.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return (F.dropout(softmax(scores), dropout_p) @ v).to(query.dtype)


@exercise.equivalent("scores from the logarithm of their sum")
def _logsumexp(*args, **kwargs):
    def softmax(scores):
        dead = (scores == -math.inf).all(-1, keepdim=True)
        safe = scores.masked_fill(dead, 0.0)
        lse = safe.logsumexp(-1, keepdim=True)
        return (safe - lse).exp() * ~dead

    return _attend(softmax, *args, **kwargs)


@exercise.equivalent("in float64 throughout")
def _double(query, key, value, *args, **kwargs):
    q, k, v = (x.double() for x in (query, key, value))
    out = _attend(functional.softmax, q, k, v, *args, **kwargs)
    return out.to(query.dtype)


@exercise.equivalent("one more key, for the rows without any")
def _extra_key(*args, **kwargs):
    def softmax(scores):
        dead = (scores == -math.inf).all(-1, keepdim=True)
        column = torch.zeros_like(dead, dtype=scores.dtype)
        column = column.masked_fill(~dead, -math.inf)
        return torch.cat([scores, column], -1).softmax(-1)[..., :-1]

    return _attend(softmax, *args, **kwargs)
