"""Cases and properties of ``why-causal_average``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import dtypes, gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def causal_average(x: Tensor) -> Tensor:
    """Attend with queries of zero, which prefer no key."""
    return functional.scaled_dot_product_attention(
        torch.zeros_like(x), x, x, is_causal=True
    )


SHAPES = {
    "there is one token, which is its own average": [(1, 4), (3, 1, 2)],
    "there are two axes, tokens and features": [(2, 3), (3, 7), (6, 1)],
    "there are as many tokens as features": [(4, 4)],
    "there is a batch: three axes": [(3, 5, 4), (2, 2, 2), (1, 6, 3)],
    "there is a batch of several heads: four axes": [(2, 3, 5, 4)],
    "the text is long": [(300, 2)],  # above 256, bfloat16 skips integers
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, shape in entries(SHAPES):
        yield Case(when, (g.randn(*shape),))
    yield Case("the numbers are far from 0", (g.randn(2, 6, 3) + 20,))
    zeros = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0])[:, None]
    yield Case("some tokens are 0 throughout", (zeros * g.randn(2, 5, 3),))


exercise = Exercise(
    id="why-causal_average",
    points=1,
    reference=causal_average,
    cases=_cases,
    also=(
        dtypes(torch.float64),
        views(),
        gradients(),
        ones("... L", "... E", "L E"),
    ),
    properties=(
        Property(
            "Row 0 has no token before it: it must come back as it is.",
            lambda case, out: torch.allclose(
                out[..., 0, :], case.args[0][..., 0, :], atol=1e-5
            ),
        ),
        Property(
            "The last row must be the plain mean of all the tokens.",
            lambda case, out: torch.allclose(
                out[..., -1, :], case.args[0].mean(-2), atol=1e-4
            ),
        ),
    ),
    breaks={
        "S = 1": lambda c: c.args[0].shape[-2] > 1,
        "L = S": lambda c: c.args[0].shape[-2] != c.args[0].shape[-1],
        "contiguous strides": is_view,
    },
)
