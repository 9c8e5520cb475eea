"""Exercise ``sdpa-scaled_dot_product_attention``: the whole contract."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.spec import Case, Exercise, Property

INF = float("inf")


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The reference, with the arguments that torch has."""
    out = functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale,
        enable_gqa,
    )
    assert isinstance(out, Tensor)
    return out


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    def qkv(*lead: int, L=3, S=5, D=8, Dv=6, kv=()) -> tuple[Tensor, ...]:  # noqa: N803
        kv = kv or lead
        return randn(*lead, L, D), randn(*kv, S, D), randn(*kv, S, Dv)

    def some(*shape: int) -> Tensor:
        """About half allowed; every query has a key, and lacks one."""
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

    stage = "attn_mask is numbers to add"
    yield Case(stage, (*qkv(2, 3), randn(3, 5)))
    yield Case(stage, (*qkv(2, 3), randn(1, 3, 1, 5)), {"scale": 0.7})

    stage = "attn_mask is numbers, minus infinity among them"
    bias = randn(2, 1, 3, 5).masked_fill(~some(2, 1, 3, 5), -INF)
    yield Case(stage, (*qkv(2, 3), bias))
    low = torch.zeros(3, 5).masked_fill(~some(3, 5), -INF)
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
    nobody = torch.zeros(2, 1, 1, 5, dtype=torch.bool)
    nobody[1, ..., :3] = True
    yield Case(stage, (*qkv(2, 3), nobody))

    stage = "a query may attend to nothing (minus infinity)"
    bias = torch.zeros(3, 5).masked_fill(~dead[0, 0], -INF)
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

    stage = "enable_gqa with one key head, or with as many as there are"
    yield Case(stage, qkv(2, 4, kv=(2, 1)), gqa)
    yield Case(stage, qkv(2, 3), gqa)

    stage = "dropout_p is 1.0: nothing is left"
    yield Case(stage, qkv(2, 3), {"dropout_p": 1.0}, train=True)

    stage = "dropout_p is between 0 and 1: the mean over many keys stays"
    for p in (0.1, 0.8):
        yield Case(
            stage, _many_keys(), {"dropout_p": p}, train=True, rtol=0.07
        )

    stage = "the scores are large"
    q, k, v = qkv(2, 3)
    yield Case(stage, (q.sign() * 300, k.sign() * 9 + 3 * k, v))

    stage = "the inputs are views of other tensors"
    heads_last = (x.transpose(1, 2).contiguous() for x in qkv(2, 3))
    yield Case(stage, tuple(x.transpose(1, 2) for x in heads_last))

    stage = "the inputs are float64"
    yield Case(stage, tuple(x.double() for x in qkv(2, 3, D=16)))

    stage = "the inputs are half precision"
    yield Case(stage, tuple(x.bfloat16() for x in qkv(2, 3)))
    yield Case(stage, tuple(x.half() for x in qkv(1, 2)))

    stage = "the inputs are half precision and the mask is float32"
    half = tuple(x.bfloat16() for x in qkv(2, 3))
    yield Case(stage, (*half, randn(3, 5)))

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
    """Half the keys score 0.5 and have the value 1, half -0.5 and 0."""
    sign = torch.ones(size).view(-1, 2)
    sign[:, 1] = -1
    key = 0.5 * sign.reshape(1, 1, size, 1)
    value = (key > 0).float().expand(1, 1, size, 2)
    return torch.ones(1, 1, 1, 1), key, value.contiguous()


def _right_shape(case: Case, out: object) -> bool:
    query, _, value = case.args[:3]
    want = (*query.shape[:-1], value.shape[-1])
    return isinstance(out, Tensor) and tuple(out.shape) == want


def _dead_rows_are_zero(case: Case, out: Tensor) -> bool:
    return not bool(out.isnan().any())


exercise = Exercise(
    id="sdpa-scaled_dot_product_attention",
    points=3,
    reference=scaled_dot_product_attention,
    cases=_cases,
    forbids=("scaled_dot_product_attention",),
    hints=(
        "Start from chapter 2's attention and let the check lead you, one "
        "argument after the other. The order is: scores, scale, masks, "
        "softmax, dropout, values.",
        "Bring everything to -inf: a bool mask by masked_fill, numbers by "
        "addition, is_causal by torch.ones(L, S).tril(). Work in "
        "torch.promote_types(query.dtype, torch.float32), and go back to "
        "query.dtype at the end.",
        "A row without a key is (scores == -inf).all(-1, keepdim=True). Fill "
        "such rows with 0 before the softmax and again after it: no NaN is "
        "ever made, forward or backward. F.dropout(weights, dropout_p) is "
        "the dropout; repeat_interleave on axis -3 shares the heads.",
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
            _dead_rows_are_zero,
        ),
    ),
)
