"""Cases and properties of ``sdp-attention_loops``."""

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.sdp.draw import far_apart, in_range
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import is_view, many_keys, many_queries


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    def case(when: str, L: int, S: int, D: int, Dv: int) -> Case:
        return Case(when, (randn(L, D), randn(S, D), randn(S, Dv)))

    when = "there is one key, so only its value counts"
    yield case(when, L=3, S=1, D=4, Dv=5)
    yield case(when, L=1, S=1, D=2, Dv=2)

    when = "the query is zero, so the result is the mean of the values"
    yield Case(when, (torch.zeros(2, 4), randn(5, 4), randn(5, 3)))

    when = "L, S, D and Dv all differ"
    yield case(when, L=3, S=5, D=8, Dv=6)
    yield case(when, L=6, S=4, D=12, Dv=5)

    yield case("there is one query", L=1, S=4, D=9, Dv=6)

    when = "there are as many queries as keys"
    yield case(when, L=4, S=4, D=3, Dv=2)
    yield case(when, L=4, S=4, D=4, Dv=4)

    yield case("D is 1", L=2, S=3, D=1, Dv=4)

    yield case("the values are single numbers", L=3, S=7, D=6, Dv=1)

    when = "the scores are large"
    q, k = far_apart(g)
    yield Case(when, (q, k, randn(5, 2)))
    yield Case(when, (-q, k, randn(5, 2)))
    q, k = randn(3, 4) + 10, randn(5, 4) / 10 + 10
    yield Case(when, (q, k, randn(5, 2)))  # about 200, and close together

    when = "the inputs are views of other tensors"
    views = randn(8, 2).mT, randn(8, 5).mT, randn(1, 3).expand(5, 3)
    yield Case(when, views)


exercise = Exercise(
    id="sdp-attention_loops",
    points=2,
    reference=functional.attention_loops,
    cases=_cases,
    forbids=("scaled_dot_product_attention",),
    properties=(in_range,),
    breaks={
        "S = 1": many_keys,
        "L = S": many_queries,
        "contiguous strides": is_view,
    },
)
