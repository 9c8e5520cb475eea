"""Cases, properties and correct variants of ``sdp-attention``."""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F

from attn import functional
from attn.exercises.draw import Draw
from attn.exercises.sdp.draw import far_apart, in_range
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import heads, is_view, many_keys, many_queries


def attention(query, key, value, scale=None):
    """Call the reference with the task's own signature."""
    return functional.scaled_dot_product_attention(
        query, key, value, scale=scale
    )


def _cases(g: Draw) -> Iterator[Case]:
    def qkv(
        *lead: int, L: int = 3, S: int = 5, D: int = 8, Dv: int = 6
    ) -> tuple:
        sizes = (L, D), (S, D), (S, Dv)
        return tuple(torch.randn(*lead, *two, generator=g) for two in sizes)

    when = "there is one key, so only its value counts"
    yield Case(when, qkv(S=1))
    yield Case(when, qkv(2, 3, S=1))

    when = "the query is zero, so the result is the mean of the values"
    q, k, v = qkv()
    yield Case(when, (torch.zeros_like(q), k, v))

    when = "there is one sequence: two axes"
    yield Case(when, qkv())
    yield Case(when, qkv(L=7, S=4, D=9, Dv=5))

    when = "there is a batch: three axes"
    yield Case(when, qkv(2))
    yield Case(when, qkv(1, L=1))

    when = "there are batch and heads: four axes and more"
    yield Case(when, qkv(2, 6, S=7))
    yield Case(when, qkv(2, 1, 3, L=4))
    yield Case(when, qkv(1, 1, L=1, Dv=1))

    when = "axes have the same length"
    yield Case(when, qkv(L=4, S=4, D=4, Dv=4))
    yield Case(when, qkv(3, L=3, S=3, D=3, Dv=3))
    yield Case(when, qkv(2, 2, L=4, S=4, D=4, Dv=4))

    when = "scale is given"
    yield Case(when, qkv(), {"scale": 1.0})
    yield Case(when, qkv(2, 3), {"scale": 0.2})
    yield Case(when, qkv(2), {"scale": 2})
    yield Case(when, qkv(), {"scale": -0.6})

    yield Case("scale is 0.0, a number like any other", qkv(2), {"scale": 0.0})

    when = "the scores are large"
    q, k = far_apart(g)
    v = torch.randn(2, 5, 2, generator=g)
    yield Case(when, (torch.stack([q, -q]), torch.stack([k, k]), v))

    when = "the inputs are views of other tensors"
    q, k, v = qkv(2, 3)
    heads_last = (x.transpose(1, 2).contiguous() for x in (q, k, v))
    yield Case(when, tuple(x.transpose(1, 2) for x in heads_last))
    yield Case(when, (q, k[:, :1].expand(-1, 3, -1, -1), v))

    when = "the inputs are float64, and so is the precision"
    # D = 16: its root is exact, so a scale kept in float32 is right too.
    yield Case(when, tuple(x.double() for x in qkv(2, D=16)))

    halves = tuple(x.bfloat16() for x in qkv(2, 3))
    yield Case("the inputs are bfloat16", halves)

    when = "gradients flow back"
    yield Case(when, qkv(2, 2), grad=True)
    yield Case(when, qkv(), {"scale": 0.7}, grad=True)


exercise = Exercise(
    id="sdp-attention",
    points=3,
    reference=attention,
    cases=_cases,
    forbids=("scaled_dot_product_attention",),
    properties=(in_range,),
    breaks={
        "S = 1": many_keys,
        "H = 1": heads,
        "L = S": many_queries,
        "contiguous strides": is_view,
    },
)


def _factor(query, scale):
    return query.shape[-1] ** -0.5 if scale is None else scale


@exercise.equivalent("einsum")
def _einsum(query, key, value, scale=None):
    scale = 1 / math.sqrt(key.size(-1)) if scale is None else scale
    scores = torch.einsum("...ld,...sd->...ls", query, key) * scale
    return torch.einsum("...ls,...sv->...lv", scores.softmax(dim=-1), value)


@exercise.equivalent("transpose, the query scaled, softmax by hand")
def _by_hand(query, key, value, scale=None):
    q = query * _factor(query, scale)
    scores = torch.matmul(q, key.transpose(-2, -1))
    exps = torch.exp(scores - scores.max(-1, keepdim=True).values)
    return torch.matmul(exps, value) / exps.sum(-1, keepdim=True)


@exercise.equivalent("flattened to three axes and bmm")
def _bmm(query, key, value, scale=None):
    q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in (query, key, value))
    scores = torch.bmm(q, k.permute(0, 2, 1)).mul_(_factor(query, scale))
    out = torch.bmm(F.softmax(scores, 2), v)
    return out.reshape(*query.shape[:-1], value.shape[-1])


@exercise.equivalent("keys down, queries across")
def _transposed(query, key, value, scale=None):
    scores = key @ query.mT * _factor(query, scale)  # (..., S, L)
    return (value.mT @ scores.softmax(-2)).mT


@exercise.equivalent("one query at a time")
def _row_by_row(query, key, value, scale=None):
    rows = []
    for i in range(query.shape[-2]):
        products = query[..., i : i + 1, :] * key  # (..., S, D)
        weights = (products.sum(-1) * _factor(query, scale)).softmax(-1)
        rows.append((weights[..., None] * value).sum(-2))
    return torch.stack(rows, -2)


@exercise.equivalent("one sequence at a time, by calling itself")
def _recursive(query, key, value, scale=None):
    if query.dim() == 2:
        scores = query.mm(key.t()) * _factor(query, scale)
        return scores.softmax(1).mm(value)
    parts = zip(query, key, value, strict=True)
    return torch.stack([_recursive(*part, scale) for part in parts])


@exercise.equivalent("vmap over the leading axes")
def _vmap(query, key, value, scale=None):
    def one(q, k, v):
        return torch.softmax(q @ k.T * _factor(q, scale), 1) @ v

    for _ in query.shape[:-2]:
        one = torch.vmap(one)
    return one(query, key, value)


@exercise.equivalent("one pass over the keys, in float32 or float64")
def _online(query, key, value, scale=None):
    dtype = torch.promote_types(query.dtype, torch.float32)
    q, k, v = (x.to(dtype) for x in (query, key, value))
    q = q * _factor(query, scale)
    top = torch.full_like(q[..., :1], -math.inf)
    total, out = torch.zeros_like(top), 0.0
    for j in range(key.shape[-2]):
        score = (q * k[..., j : j + 1, :]).sum(-1, keepdim=True)
        new = torch.maximum(top, score)
        shrink, weight = (top - new).exp(), (score - new).exp()
        total = total * shrink + weight
        out = out * shrink + weight * v[..., j : j + 1, :]
        top = new
    return (out / total).to(query.dtype)
