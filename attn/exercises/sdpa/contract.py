"""Inputs of ``sdpa-scaled_dot_product_attention``, argument by argument."""

import math
from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn.exercises.draw import Draw
from attn.exercises.spec import Case


def cases(g: Draw) -> Iterator[Case]:
    def qkv(*lead: int, L=3, S=5, D=8, Dv=6, kv=()) -> tuple[Tensor, ...]:
        kv = kv or lead
        return g.randn(*lead, L, D), g.randn(*kv, S, D), g.randn(*kv, S, Dv)

    def some(*shape: int) -> Tensor:
        """Allow about half; in each row at least one key, and not all."""
        allowed = torch.rand(*shape, generator=g) > 0.5
        ends = torch.randint(shape[-1], shape[:-1], generator=g)[..., None]
        other = (ends + 1) % shape[-1]
        return allowed.scatter(-1, ends, True).scatter(-1, other, False)

    when = "there is one key, so only its value counts"
    yield Case(when, qkv(2, 3, S=1))

    when = "only query, key and value are given"
    yield Case(when, qkv(2, 3))
    yield Case(when, qkv(3, 3, L=3, S=3, D=3, Dv=3))
    yield Case(when, qkv(2, 2, L=4, S=7, D=5, Dv=9))
    query, key, value = qkv(2, 3)
    yield Case(when, (query, key, 1000 * value))

    when = "there are no heads, or more axes in front"
    yield Case(when, qkv())
    yield Case(when, qkv(3))
    yield Case(when, qkv(2, 2, 3))

    when = "scale is given"
    yield Case(when, qkv(2, 3), {"scale": 0.2})
    yield Case(when, qkv(2, 3), {"scale": 1})
    yield Case(when, qkv(2, 3), {"scale": -0.6})

    when = "scale is 0.0, a number like any other"
    yield Case(when, qkv(2, 3), {"scale": 0.0})

    when = "attn_mask is bool"
    yield Case(when, (*qkv(2, 3), some(3, 5)))
    yield Case(when, (*qkv(2, 3), some(2, 3, 3, 5)))

    when = "attn_mask is bool, and scale is negative"
    yield Case(when, (*qkv(2, 3), some(3, 5)), {"scale": -0.6})

    when = "attn_mask is bool and broadcasts"
    yield Case(when, (*qkv(2, 3), some(2, 1, 1, 5)))
    yield Case(when, (*qkv(2, 3), some(1, 3, 3, 5)))
    yield Case(when, (*qkv(2, 3), some(3, 3, 5)))
    yield Case(when, (*qkv(3, 3, L=4, S=4), some(3, 1, 4, 4)))

    when = "attn_mask is bool, and there are no heads or no batch"
    yield Case(when, (*qkv(), some(3, 5)))
    yield Case(when, (*qkv(4), some(3, 5)))
    yield Case(when, (*qkv(4), some(4, 3, 5)))

    when = "attn_mask is float, to be added"
    yield Case(when, (*qkv(2, 3), g.randn(3, 5)))
    yield Case(when, (*qkv(2, 3), g.randn(1, 3, 1, 5)), {"scale": 0.7})

    when = "attn_mask is float and holds minus infinity"
    bias = g.randn(2, 1, 3, 5).masked_fill(~some(2, 1, 3, 5), -math.inf)
    yield Case(when, (*qkv(2, 3), bias))
    low = torch.zeros(3, 5).masked_fill(~some(3, 5), -math.inf)
    yield Case(when, (*qkv(2, 3), low))

    when = "is_causal, with as many queries as keys"
    yield Case(when, qkv(2, 3, L=5), {"is_causal": True})
    yield Case(when, qkv(L=4, S=4), {"is_causal": True})

    when = "is_causal, with more keys than queries"
    yield Case(when, qkv(2, 3), {"is_causal": True})
    yield Case(when, qkv(2, 3, L=1, S=6), {"is_causal": True})

    when = "is_causal, with more queries than keys"
    yield Case(when, qkv(2, 3, L=7, S=4), {"is_causal": True})

    when = "is_causal and a mask: both apply"
    allowed = some(5, 5)
    allowed[:, 0] = True
    bias = g.randn(1, 3, 5, 5)
    yield Case(when, (*qkv(2, 3, L=5), allowed), {"is_causal": True})
    yield Case(when, (*qkv(2, 3, L=5), bias), {"is_causal": True})

    when = "a query may attend to nothing (a bool mask)"
    dead = some(2, 1, 3, 5)
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

    when = "enable_gqa"
    gqa = {"enable_gqa": True}
    yield Case(when, qkv(2, 6, kv=(2, 2)), gqa)
    yield Case(when, qkv(3, 4, kv=(3, 2)), {**gqa, "is_causal": True})
    yield Case(when, qkv(2, 6, kv=(2, 3)), {**gqa, "attn_mask": some(3, 5)})
    yield Case(when, qkv(2, 4, L=1, kv=(2, 2)), gqa)

    when = "enable_gqa, without a batch or with more axes in front"
    yield Case(when, qkv(6, kv=(3,)), gqa)
    yield Case(when, qkv(4, L=5, kv=(2,)), {**gqa, "attn_mask": some(5, 5)})
    yield Case(when, qkv(2, 3, 4, kv=(2, 3, 2)), gqa)

    when = "enable_gqa with one key head, or with as many as query heads"
    yield Case(when, qkv(2, 4, kv=(2, 1)), gqa)
    yield Case(when, qkv(2, 3), gqa)

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
    dropped = {"dropout_p": 0.8}
    for lead in ((1, 400), (400, 1)):
        over = -3 if lead[0] == 1 else -4
        inputs = _equal_keys(*lead)
        yield Case(when, inputs, dropped, train=True, largest_over=over)

    when = "the scores are large"
    q, k, v = qkv(2, 3)
    inputs = q.sign() * 300, k.sign() * 9 + 3 * k, v
    yield Case(when, inputs, rtol=1e-3)  # exp shows their rounding

    when = "the inputs are views of other tensors"
    heads_last = (x.transpose(1, 2).contiguous() for x in qkv(2, 3))
    yield Case(when, tuple(x.transpose(1, 2) for x in heads_last))
    query, key, value = qkv(1, 3)
    shared = (key.expand(2, 3, 5, 8), value.expand(2, 3, 5, 6))
    yield Case(when, (query.expand(2, 3, 3, 8), *shared))

    when = "the inputs are float64"
    yield Case(when, tuple(x.double() for x in qkv(2, 3, D=16)))

    when = "the inputs are half precision"
    yield Case(when, tuple(x.bfloat16() for x in qkv(2, 3)))
    yield Case(when, tuple(x.half() for x in qkv(1, 2)))

    when = "the inputs are half precision and the mask is float32"
    half = tuple(x.bfloat16() for x in qkv(2, 3))
    yield Case(when, (*half, g.randn(3, 5)))
    yield Case(when, (*half, 64 + g.randn(3, 5)))

    when = "the inputs are half precision and the values nearly cancel"
    for dtype in (torch.bfloat16, torch.half):
        yield Case(when, tuple(x.to(dtype) for x in _cancelling(g)))

    when = "the scores do not fit into float16"
    big = torch.full((1, 1, 2, 8), 300.0)
    big[0, 0, 1] *= -1
    yield Case(when, (big.half(), big.half(), g.randn(1, 1, 2, 4).half()))

    when = "gradients flow back"
    yield Case(when, qkv(2, 2), grad=True)
    full = {**gqa, "is_causal": True, "scale": 0.4}
    yield Case(when, (*qkv(2, 4, kv=(2, 2)), some(3, 5)), full, grad=True)

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
