"""Cases and variants of ``sdpa-scaled_dot_product_attention``."""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from attn import functional
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import heads, is_view, many_keys, many_queries


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    def qkv(*lead: int, L=3, S=5, D=8, Dv=6, kv=()) -> tuple[Tensor, ...]:
        kv = kv or lead
        return randn(*lead, L, D), randn(*kv, S, D), randn(*kv, S, Dv)

    def some(*shape: int) -> Tensor:
        """Allow about half; in each row at least one key, and not all."""
        allowed = torch.rand(*shape, generator=g) > 0.5
        ends = torch.randint(shape[-1], shape[:-1], generator=g)[..., None]
        other = (ends + 1) % shape[-1]
        return allowed.scatter(-1, ends, True).scatter(-1, other, False)

    stage = "there is one key, so only its value counts"
    yield Case(stage, qkv(2, 3, S=1))

    stage = "only query, key and value are given"
    yield Case(stage, qkv(2, 3))
    yield Case(stage, qkv(3, 3, L=3, S=3, D=3, Dv=3))
    yield Case(stage, qkv(2, 2, L=4, S=7, D=5, Dv=9))
    query, key, value = qkv(2, 3)
    yield Case(stage, (query, key, 1000 * value))

    stage = "there are no heads, or more axes in front"
    yield Case(stage, qkv())
    yield Case(stage, qkv(3))
    yield Case(stage, qkv(2, 2, 3))

    stage = "scale is given"
    yield Case(stage, qkv(2, 3), {"scale": 0.2})
    yield Case(stage, qkv(2, 3), {"scale": 1})
    yield Case(stage, qkv(2, 3), {"scale": -0.6})

    stage = "scale is 0.0, a number like any other"
    yield Case(stage, qkv(2, 3), {"scale": 0.0})

    stage = "attn_mask is bool"
    yield Case(stage, (*qkv(2, 3), some(3, 5)))
    yield Case(stage, (*qkv(2, 3), some(2, 3, 3, 5)))

    stage = "attn_mask is bool and broadcasts"
    yield Case(stage, (*qkv(2, 3), some(2, 1, 1, 5)))
    yield Case(stage, (*qkv(2, 3), some(1, 3, 3, 5)))
    yield Case(stage, (*qkv(2, 3), some(3, 3, 5)))
    yield Case(stage, (*qkv(3, 3, L=4, S=4), some(3, 1, 4, 4)))

    stage = "attn_mask is bool, and there are no heads or no batch"
    yield Case(stage, (*qkv(), some(3, 5)))
    yield Case(stage, (*qkv(4), some(3, 5)))
    yield Case(stage, (*qkv(4), some(4, 3, 5)))

    stage = "attn_mask is float, to be added"
    yield Case(stage, (*qkv(2, 3), randn(3, 5)))
    yield Case(stage, (*qkv(2, 3), randn(1, 3, 1, 5)), {"scale": 0.7})

    stage = "attn_mask is float and holds minus infinity"
    bias = randn(2, 1, 3, 5).masked_fill(~some(2, 1, 3, 5), -math.inf)
    yield Case(stage, (*qkv(2, 3), bias))
    low = torch.zeros(3, 5).masked_fill(~some(3, 5), -math.inf)
    yield Case(stage, (*qkv(2, 3), low))

    stage = "is_causal, with as many queries as keys"
    yield Case(stage, qkv(2, 3, L=5), {"is_causal": True})
    yield Case(stage, qkv(L=4, S=4), {"is_causal": True})

    stage = "is_causal, with more keys than queries"
    yield Case(stage, qkv(2, 3), {"is_causal": True})
    yield Case(stage, qkv(2, 3, L=1, S=6), {"is_causal": True})

    stage = "is_causal, with more queries than keys"
    yield Case(stage, qkv(2, 3, L=7, S=4), {"is_causal": True})

    stage = "is_causal and a mask: both apply"
    allowed = some(5, 5)
    allowed[:, 0] = True
    bias = randn(1, 3, 5, 5)
    yield Case(stage, (*qkv(2, 3, L=5), allowed), {"is_causal": True})
    yield Case(stage, (*qkv(2, 3, L=5), bias), {"is_causal": True})

    stage = "a query may attend to nothing (a bool mask)"
    dead = some(2, 1, 3, 5)
    dead[0, 0, 1] = False
    yield Case(stage, (*qkv(2, 3), dead))
    empty = torch.zeros(2, 1, 1, 5, dtype=torch.bool)
    empty[1, ..., :3] = True
    yield Case(stage, (*qkv(2, 3), empty))

    stage = "a query may attend to nothing (minus infinity)"
    bias = torch.zeros(3, 5).masked_fill(~dead[0, 0], -math.inf)
    yield Case(stage, (*qkv(2, 3), bias))

    stage = "a query may attend to nothing (causal and left padding)"
    left = torch.tensor([[True] * 4, [False] * 2 + [True] * 2])
    inputs = (*qkv(2, 3, L=4, S=4), left[:, None, None])
    yield Case(stage, inputs, {"is_causal": True})

    stage = "enable_gqa"
    gqa = {"enable_gqa": True}
    yield Case(stage, qkv(2, 6, kv=(2, 2)), gqa)
    yield Case(stage, qkv(3, 4, kv=(3, 2)), {**gqa, "is_causal": True})
    yield Case(stage, qkv(2, 6, kv=(2, 3)), {**gqa, "attn_mask": some(3, 5)})
    yield Case(stage, qkv(2, 4, L=1, kv=(2, 2)), gqa)

    stage = "enable_gqa, without a batch or with more axes in front"
    yield Case(stage, qkv(6, kv=(3,)), gqa)
    yield Case(stage, qkv(4, L=5, kv=(2,)), {**gqa, "attn_mask": some(5, 5)})
    yield Case(stage, qkv(2, 3, 4, kv=(2, 3, 2)), gqa)

    stage = "enable_gqa with one key head, or with as many as query heads"
    yield Case(stage, qkv(2, 4, kv=(2, 1)), gqa)
    yield Case(stage, qkv(2, 3), gqa)

    stage = "dropout_p is 1.0: nothing is left"
    yield Case(stage, qkv(2, 3), {"dropout_p": 1.0}, train=True)

    stage = "dropout_p is between 0 and 1: the mean over many keys stays"
    for p in (0.1, 0.8):
        yield Case(
            stage, _many_keys(), {"dropout_p": p}, train=True, rtol=0.07
        )

    stage = "dropout_p is between 0 and 1: the largest of 400 rows"
    for p in (0.1, 0.8):
        dropped = {"dropout_p": p}
        yield Case(stage, _equal_keys(), dropped, train=True, largest_over=-2)

    stage = "the scores are large"
    q, k, v = qkv(2, 3)
    yield Case(stage, (q.sign() * 300, k.sign() * 9 + 3 * k, v))

    stage = "the inputs are views of other tensors"
    heads_last = (x.transpose(1, 2).contiguous() for x in qkv(2, 3))
    yield Case(stage, tuple(x.transpose(1, 2) for x in heads_last))
    query, key, value = qkv(1, 3)
    shared = (key.expand(2, 3, 5, 8), value.expand(2, 3, 5, 6))
    yield Case(stage, (query.expand(2, 3, 3, 8), *shared))

    stage = "the inputs are float64"
    yield Case(stage, tuple(x.double() for x in qkv(2, 3, D=16)))

    stage = "the inputs are half precision"
    yield Case(stage, tuple(x.bfloat16() for x in qkv(2, 3)))
    yield Case(stage, tuple(x.half() for x in qkv(1, 2)))

    stage = "the inputs are half precision and the mask is float32"
    half = tuple(x.bfloat16() for x in qkv(2, 3))
    yield Case(stage, (*half, randn(3, 5)))
    yield Case(stage, (*half, 64 + randn(3, 5)))

    stage = "the inputs are half precision and the values nearly cancel"
    for dtype in (torch.bfloat16, torch.half):
        yield Case(stage, tuple(x.to(dtype) for x in _cancelling(g)))

    stage = "the scores do not fit into float16"
    big = torch.full((1, 1, 2, 8), 300.0)
    big[0, 0, 1] *= -1
    yield Case(stage, (big.half(), big.half(), randn(1, 1, 2, 4).half()))

    stage = "gradients flow back"
    yield Case(stage, qkv(2, 2), grad=True)
    full = {**gqa, "is_causal": True, "scale": 0.4}
    yield Case(stage, (*qkv(2, 4, kv=(2, 2)), some(3, 5)), full, grad=True)

    stage = "gradients flow back and a query may attend to nothing"
    yield Case(stage, (*qkv(2, 3), dead), grad=True)
    yield Case(stage, (*qkv(2, 3), bias), grad=True)


def _many_keys(size: int = 16384) -> tuple[Tensor, Tensor, Tensor]:
    """Make keys: half score 0.5 and have the value 1, half -0.5 and 0."""
    sign = torch.ones(size).view(-1, 2)
    sign[:, 1] = -1
    key = 0.5 * sign.reshape(1, 1, size, 1)
    value = (key > 0).float().expand(1, 1, size, 2)
    return torch.ones(1, 1, 1, 1), key, value.contiguous()


def _equal_keys() -> tuple[Tensor, Tensor, Tensor]:
    """Make a row of the result the weights: 16 equal ones, 400 times."""
    key = torch.ones(1, 1, 16, 4)
    return torch.zeros(1, 1, 400, 4), key, torch.eye(16)[None, None]


def _cancelling(g: Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Make values of 1000 and -1000 with nearly equal weights."""
    query = torch.randn(1, 2, 3, 8, generator=g)
    key = 0.01 * torch.randn(1, 2, 6, 8, generator=g)
    sign = torch.tensor([1.0, -1.0]).repeat(3)
    return query, key, 1000 * sign.view(1, 1, 6, 1).repeat(1, 2, 1, 4)


def _right_shape(case: Case, out: object) -> bool:
    query, _, value = case.args[:3]
    shape = (*query.shape[:-1], value.shape[-1])
    return isinstance(out, Tensor) and tuple(out.shape) == shape


def _no_nan(_case: Case, out: Tensor) -> bool:
    return not bool(out.isnan().any())


exercise = Exercise(
    id="sdpa-scaled_dot_product_attention",
    points=3,
    reference=functional.scaled_dot_product_attention,
    cases=_cases,
    forbids=(
        "scaled_dot_product_attention",
        "scaled_dot_product_attention_math",
        "scaled_dot_product_flash_attention_for_cpu",
        "multi_head_attention_forward",
        "flex_attention",
    ),
    properties=(
        Property(
            "The result should have the query's shape with the value's "
            "last axis, (..., H, L, Dv).",
            _right_shape,
        ),
        Property(
            "There is a NaN in the result. A softmax over minus infinities "
            "is 0 / 0, and infinity minus infinity has no value either.",
            _no_nan,
        ),
    ),
    breaks={
        "S = 1": many_keys,
        "H = 1": heads,
        "L = S": many_queries,
        "p = 0.5": lambda c: c.kwargs.get("dropout_p", 0.5) not in (0.5, 1.0),
        "contiguous strides": is_view,
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
