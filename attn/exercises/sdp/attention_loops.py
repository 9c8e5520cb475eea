"""Cases and properties of ``sdp-attention_loops``."""

from collections.abc import Iterator

import torch

from attn import functional
from attn.exercises.conditions import ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.sdp.draw import far_apart, in_range
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import OF_ATTENTION

SIZES = {  # L, S, D, Dv
    "there is one key, so only its value counts": [(3, 1, 4, 5), (1, 1, 2, 2)],
    "L, S, D and Dv all differ": [(3, 5, 8, 6), (6, 4, 12, 5)],
    "there is one query": [(1, 4, 9, 6)],
    "axes have the same length": [(4, 4, 3, 2), (4, 4, 4, 4)],
    "D is 1": [(2, 3, 1, 4)],
    "the values are single numbers": [(3, 7, 6, 1)],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, (L, S, D, Dv) in entries(SIZES):
        yield Case(when, (g.randn(L, D), g.randn(S, D), g.randn(S, Dv)))

    when = "the query is zero, so the result is the mean of the values"
    yield Case(when, (torch.zeros(2, 4), g.randn(5, 4), g.randn(5, 3)))

    when = "the scores are large"
    q, k = far_apart(g)
    yield Case(when, (q, k, g.randn(5, 2)))
    yield Case(when, (-q, k, g.randn(5, 2)))
    q, k = g.randn(3, 4) + 10, g.randn(5, 4) / 10 + 10
    yield Case(when, (q, k, g.randn(5, 2)))  # about 200, and close together


exercise = Exercise(
    id="sdp-attention_loops",
    points=2,
    reference=functional.attention_loops,
    cases=_cases,
    also=(
        views(),
        ones("L S", "L Dv", "D Dv"),
    ),
    forbids=("scaled_dot_product_attention",),
    properties=(in_range,),
    breaks=OF_ATTENTION,
)
