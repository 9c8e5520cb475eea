"""Cases and properties of ``sdp-attention``."""

from collections.abc import Iterator

import torch
from torch import Generator

from attn import functional
from attn.exercises.sdp.draw import far_apart, in_range
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import heads, is_view, many_keys, many_queries


def attention(query, key, value, scale=None):
    """Call the reference with the task's own signature."""
    return functional.scaled_dot_product_attention(
        query, key, value, scale=scale
    )


def _cases(g: Generator) -> Iterator[Case]:
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
