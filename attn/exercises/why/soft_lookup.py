"""Cases and properties of ``why-soft_lookup``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import dtypes, gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.sdp.draw import far_apart, in_range
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import OF_ATTENTION


def soft_lookup(
    query: Tensor, key: Tensor, value: Tensor, temperature: float = 1.0
) -> Tensor:
    """Attend, with one over the temperature as the scale."""
    return functional.scaled_dot_product_attention(
        query, key, value, scale=1 / temperature
    )


SIZES = {  # the axes in front, then L, S, D, Dv
    "there is one key, so only its value counts": [(3, 1, 4, 5), (1, 1, 2, 2)],
    "the temperature is not given": [(3, 5, 4, 6), (6, 4, 3, 5)],
}
WARM = {  # and last the temperature
    "the temperature is not 1": [(3, 5, 8, 6, 0.5), (2, 7, 4, 3, 3.0)],
    "axes have the same length": [(4, 4, 3, 2, 2.0), (3, 3, 3, 3, 3, 0.6)],
    "D is 1": [(2, 3, 1, 4, 0.8)],
    "the temperature is high: nearly the mean": [(3, 5, 4, 2, 100.0)],
    "the temperature is low: one key decides": [(3, 5, 4, 2, 0.01)],
    "there are many keys": [(3, 40, 4, 2, 1.5)],
    "there is a batch: three axes": [(2, 3, 5, 4, 6, 1.5)],
    "there is a batch of several heads: four axes": [(2, 3, 4, 5, 6, 7, 2.5)],
}


def _cases(g: Draw) -> Iterator[Case]:
    def qkv(*sizes: int) -> tuple[Tensor, ...]:
        *lead, L, S, D, Dv = sizes
        pairs = (L, D), (S, D), (S, Dv)
        return tuple(g.randn(*lead, *pair) for pair in pairs)

    for when, sizes in entries(SIZES):
        yield Case(when, qkv(*sizes))
    for when, (*axes, temperature) in entries(WARM):
        yield Case(when, (*qkv(*axes), temperature))

    when = "the query is zero, so the result is the mean of the values"
    q, k, v = qkv(2, 5, 4, 3)
    yield Case(when, (0 * q, k, v))

    when = "the temperature is given by name"
    yield Case(when, qkv(2, 4, 3, 2), {"temperature": 4.0})

    when = "the scores are as small or as large as the temperature"
    for temperature in (0.01, 0.07, 0.3, 17.0):
        q, k, v = qkv(3, 5, 4, 2)
        yield Case(when, (temperature * q, k, v, temperature))

    when = "the scores are large"
    q, k = far_apart(g)
    yield Case(when, (q, k, g.randn(5, 2)))
    yield Case(when, (-q, k, g.randn(5, 2), 2.0))

    when = "the scores are large, and the temperature is high"
    q, k, v = qkv(3, 5, 4, 2)
    yield Case(when, (40 * q, 2 * k, v, 100.0))


exercise = Exercise(
    id="why-soft_lookup",
    points=2,
    reference=soft_lookup,
    cases=_cases,
    also=(
        dtypes(torch.float64),
        views(),
        gradients(),
        ones("... L", "L S", "L Dv", "D Dv"),
    ),
    forbids=("scaled_dot_product_attention",),
    properties=(in_range,),
    breaks={
        **OF_ATTENTION,
        "H = 1": lambda c: c.args[0].dim() == 4,
        "weight = 1": lambda c: len(c.args) > 3 and c.args[3] != 1,
    },
)
