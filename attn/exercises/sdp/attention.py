"""Cases and properties of ``sdp-attention``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import dial, dtypes, gradients, ones, views
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
    for scale in (1.0, 0.2, 2, -0.6, 5.3):
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
    also=(
        dtypes(torch.bfloat16),
        views(),
        gradients(),
        dial("scale", 0.7),
        ones("... L", "... S", "... Dv", "L S", "L Dv", "D Dv"),
    ),
    forbids=("scaled_dot_product_attention",),
    properties=(in_range,),
    breaks={**OF_ATTENTION, "H = 1": heads},
)
