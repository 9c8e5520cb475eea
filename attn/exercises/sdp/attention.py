"""Cases, properties and correct variants of ``sdp-attention``."""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import functional
from attn.exercises.conditions import dtypes, gradients, views
from attn.exercises.draw import Draw, entries
from attn.exercises.sdp.draw import far_apart, in_range
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import OF_ATTENTION, heads


def attention(query, key, value, scale=None):
    """Call the reference with the task's own signature."""
    return functional.scaled_dot_product_attention(
        query, key, value, scale=scale
    )


SIZES = {  # the axes in front, then L, S, D, Dv
    "there is one key, so only its value counts": [
        (3, 1, 8, 6),
        (2, 3, 4, 1, 8, 6),
    ],
    "there is one sequence: two axes": [(3, 5, 8, 6), (7, 4, 9, 5)],
    "there is a batch: three axes": [(2, 3, 5, 8, 6), (1, 1, 5, 8, 6)],
    "there are batch and heads: four axes and more": [
        (2, 6, 3, 7, 8, 5),
        (2, 1, 3, 4, 5, 8, 6),
        (1, 1, 1, 5, 8, 1),
    ],
    "axes have the same length": [
        (4, 4, 4, 4),
        (3, 3, 3, 3, 3),
        (2, 2, 4, 4, 4, 4),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    def qkv(*sizes: int) -> tuple[Tensor, ...]:
        *lead, L, S, D, Dv = sizes
        pairs = (L, D), (S, D), (S, Dv)
        return tuple(g.randn(*lead, *pair) for pair in pairs)

    when = "the query is zero, so the result is the mean of the values"
    q, k, v = qkv(3, 5, 8, 6)
    yield Case(when, (0 * q, k, v))

    for when, sizes in entries(SIZES):
        yield Case(when, qkv(*sizes))

    when = "scale is given"
    for scale in (1.0, 0.2, 2, -0.6):
        yield Case(when, qkv(2, 3, 4, 5, 8, 6), {"scale": scale})

    when = "scale is 0.0, a number like any other"
    yield Case(when, qkv(2, 3, 5, 8, 6), {"scale": 0.0})

    when = "the scores are large"
    q, k = far_apart(g)
    inputs = torch.stack([q, -q]), torch.stack([k, k]), g.randn(2, 5, 2)
    yield Case(when, inputs)

    when = "the inputs are float64, and so is the precision"
    # D = 16: its root is exact, so a scale kept in float32 is right too.
    yield Case(when, tuple(x.double() for x in qkv(2, 3, 5, 16, 6)))


exercise = Exercise(
    id="sdp-attention",
    points=3,
    reference=attention,
    cases=_cases,
    also=(dtypes(torch.bfloat16), views(), gradients()),
    forbids=("scaled_dot_product_attention",),
    properties=(in_range,),
    breaks={**OF_ATTENTION, "H = 1": heads},
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
