"""Inputs of ``sdpa-scaled_dot_product_attention``, argument by argument."""

import math
from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case

SHAPES = {  # the axes in front, then L, S, D, Dv
    "there is one key, so only its value counts": [(2, 3, 3, 1, 8, 6)],
    "only query, key and value are given": [
        (2, 3, 3, 5, 8, 6),
        (3, 3, 3, 3, 3, 3),
        (2, 2, 4, 7, 5, 9),
    ],
    "there are no heads, or more axes in front": [
        (3, 5, 8, 6),
        (3, 3, 5, 8, 6),
        (2, 2, 3, 3, 5, 8, 6),
    ],
}
MASKS = {  # the axes in front of the mask, and of the inputs
    "attn_mask is bool": [((3, 5), (2, 3)), ((2, 3, 3, 5), (2, 3))],
    "attn_mask is bool and broadcasts": [
        ((2, 1, 1, 5), (2, 3)),
        ((1, 3, 3, 5), (2, 3)),
        ((3, 3, 5), (2, 3)),
        ((3, 1, 3, 5), (3, 3)),
    ],
    "attn_mask is bool, and there are no heads or no batch": [
        ((3, 5), ()),
        ((3, 5), (4,)),
        ((4, 3, 5), (4,)),
    ],
}
CAUSAL = {  # L, S
    "is_causal, with as many queries as keys": [(5, 5), (4, 4)],
    "is_causal, with more keys than queries": [(3, 5), (1, 6)],
    "is_causal, with more queries than keys": [(7, 4)],
}
GROUPED = {  # the axes in front of the query, and of key and value
    "enable_gqa": [((2, 6), (2, 2))],
    "enable_gqa, without a batch or with more axes in front": [
        ((6,), (3,)),
        ((2, 3, 4), (2, 3, 2)),
    ],
    "enable_gqa with one key head, or with as many as query heads": [
        ((2, 4), (2, 1)),
        ((2, 3), (2, 3)),
    ],
}


def cases(g: Draw) -> Iterator[Case]:
    """Draw the cases of every argument, and of some pairs of them."""

    def qkv(*lead: int, L=3, S=5, D=8, Dv=6, kv=()) -> tuple[Tensor, ...]:
        kv = kv or lead
        return g.randn(*lead, L, D), g.randn(*kv, S, D), g.randn(*kv, S, Dv)

    for when, (*lead, L, S, D, Dv) in entries(SHAPES):
        yield Case(when, qkv(*lead, L=L, S=S, D=D, Dv=Dv))

    when = "the values are large"
    query, key, value = qkv(2, 3)
    yield Case(when, (query, key, 1000 * value))

    when = "scale is given"
    for scale in (0.2, 1, -0.6):
        yield Case(when, qkv(2, 3), {"scale": scale})

    when = "scale is 0.0, a number like any other"
    yield Case(when, qkv(2, 3), {"scale": 0.0})

    for when, (of_mask, lead) in entries(MASKS):
        yield Case(when, (*qkv(*lead), g.mask(*of_mask)))

    when = "attn_mask is bool, and scale is negative"
    yield Case(when, (*qkv(2, 3), g.mask(3, 5)), {"scale": -0.6})

    when = "attn_mask is float, to be added"
    yield Case(when, (*qkv(2, 3), g.randn(3, 5)))
    yield Case(when, (*qkv(2, 3), g.randn(1, 3, 1, 5)), {"scale": 0.7})

    when = "attn_mask is float and holds minus infinity"
    bias = g.randn(2, 1, 3, 5).masked_fill(~g.mask(2, 1, 3, 5), -math.inf)
    yield Case(when, (*qkv(2, 3), bias))
    low = torch.zeros(3, 5).masked_fill(~g.mask(3, 5), -math.inf)
    yield Case(when, (*qkv(2, 3), low))

    for when, (L, S) in entries(CAUSAL):
        yield Case(when, qkv(2, 3, L=L, S=S), {"is_causal": True})

    when = "is_causal and a mask: both apply"
    allowed = g.mask(5, 5)
    allowed[:, 0] = True
    for mask in (allowed, g.randn(1, 3, 5, 5)):
        yield Case(when, (*qkv(2, 3, L=5), mask), {"is_causal": True})

    when = "a query may attend to nothing (a bool mask)"
    dead = g.mask(2, 1, 3, 5)
    dead[0, 0, 1] = False
    yield Case(when, (*qkv(2, 3), dead))
    empty = torch.zeros(2, 1, 1, 5, dtype=torch.bool)
    empty[1, ..., :3] = True
    yield Case(when, (*qkv(2, 3), empty))

    when = "a query may attend to nothing (minus infinity)"
    bias = torch.zeros(3, 5).masked_fill(~dead[0, 0], -math.inf)
    yield Case(when, (*qkv(2, 3), bias))

    when = "a query may attend to nothing (causal and left padding)"
    left = torch.tensor([[True] * 4, [False] * 2 + [True] * 2])
    inputs = (*qkv(2, 3, L=4, S=4), left[:, None, None])
    yield Case(when, inputs, {"is_causal": True})

    gqa = {"enable_gqa": True}
    for when, (lead, kv) in entries(GROUPED):
        yield Case(when, qkv(*lead, kv=kv), gqa)
    when = "enable_gqa, and other arguments"
    yield Case(when, qkv(3, 4, kv=(3, 2)), {**gqa, "is_causal": True})
    yield Case(when, qkv(2, 6, kv=(2, 3)), {**gqa, "attn_mask": g.mask(3, 5)})
    yield Case(when, qkv(4, L=5, kv=(2,)), {**gqa, "attn_mask": g.mask(5, 5)})

    when = "all arguments are given by position"
    yield Case(
        when,
        (
            *qkv(2, 3, L=5),
            g.mask(5, 5) | torch.eye(5).bool(),
            0.0,
            True,
            0.4,
            False,
        ),
    )

    when = "dropout_p is 1.0: nothing is left"
    yield Case(when, qkv(2, 3), {"dropout_p": 1.0}, train=True)

    when = "dropout_p is between 0 and 1: the mean over many keys stays"
    for p in (0.1, 0.8):
        yield Case(when, _many_keys(), {"dropout_p": p}, train=True, rtol=0.07)

    when = "dropout_p is between 0 and 1: the largest of 400 rows"
    for p in (0.1, 0.8):
        dropped = {"dropout_p": p}
        inputs = _equal_keys(1, 1, L=400)
        yield Case(when, inputs, dropped, train=True, largest_over=-2)

    when = "dropout_p is between 0 and 1: the largest of 400 heads"
    for lead, over in (((1, 400), -3), ((400, 1), -4)):
        inputs = _equal_keys(*lead)
        yield Case(when, inputs, dropped, train=True, largest_over=over)

    when = "the scores are large"
    q, k, v = qkv(2, 3)
    inputs = q.sign() * 300, k.sign() * 9 + 3 * k, v
    yield Case(when, inputs, rtol=1e-3)  # exp shows their rounding

    inputs = -600 * q.sign().abs(), (9 + 3 * k.abs()), v
    yield Case(when, inputs, rtol=1e-3)  # all of them below -10000

    when = "every score is 0, and some keys are hidden"
    q, k, v = qkv(2, 3, L=5)
    yield Case(when, (0 * q, k, v, g.mask(5, 5)))
    yield Case(when, (0 * q, k, v), {"is_causal": True})

    when = "the inputs are float64"
    yield Case(when, tuple(x.double() for x in qkv(2, 3, D=16)))

    when = "the inputs are half precision and the mask is float32"
    half = tuple(x.bfloat16() for x in qkv(2, 3))
    yield Case(when, (*half, g.randn(3, 5)))
    yield Case(when, (*half, 64 + g.randn(3, 5)))

    when = "the inputs are half precision and the values nearly cancel"
    for dtype in (torch.bfloat16, torch.half):
        yield Case(when, tuple(x.to(dtype) for x in _cancelling(g)))

    when = "enable_gqa, and half precision"
    q, k, v = (x.half() for x in _cancelling(g))
    yield Case(when, (torch.cat([q, -q], 1), k, v), gqa)

    when = "the scores do not fit into float16"
    big = torch.full((1, 1, 2, 8), 300.0)
    big[0, 0, 1] *= -1
    yield Case(when, (big.half(), big.half(), g.randn(1, 1, 2, 4).half()))

    when = "gradients flow back and a query may attend to nothing"
    yield Case(when, (*qkv(2, 3), dead), grad=True)
    yield Case(when, (*qkv(2, 3), bias), grad=True)


def _many_keys(size: int = 16384) -> tuple[Tensor, Tensor, Tensor]:
    """Make keys: half score 0.5 and have the value 1, half -0.5 and 0."""
    sign = torch.ones(size).view(-1, 2)
    sign[:, 1] = -1
    key = 0.5 * sign.reshape(1, 1, size, 1)
    value = (key > 0).float().expand(1, 1, size, 2)
    return torch.ones(1, 1, 1, 1), key, value.contiguous()


def _equal_keys(*lead: int, L: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Make a row of the result the weights: 16 equal ones."""
    value = torch.eye(16).expand(*lead, 16, 16).contiguous()
    return torch.zeros(*lead, L, 4), torch.ones(*lead, 16, 4), value


def _cancelling(g: Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Make values of 1000 and -1000 with nearly equal weights."""
    query = torch.randn(1, 2, 3, 8, generator=g)
    key = 0.01 * torch.randn(1, 2, 6, 8, generator=g)
    sign = torch.tensor([1.0, -1.0]).repeat(3)
    return query, key, 1000 * sign.view(1, 1, 6, 1).repeat(1, 2, 1, 4)
