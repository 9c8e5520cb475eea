"""Cases, properties and correct variants of ``why-causal_average``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import dtypes, gradients, views
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
    "the text is long": [(70, 2)],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, shape in entries(SHAPES):
        yield Case(when, (g.randn(*shape),))
    yield Case("the numbers are far from 0", (g.randn(2, 6, 3) + 20,))


exercise = Exercise(
    id="why-causal_average",
    points=1,
    reference=causal_average,
    cases=_cases,
    also=(dtypes(torch.float64), views(), gradients()),
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


@exercise.equivalent("a matrix of weights: ones below the diagonal")
def _matrix(x):
    L = x.shape[-2]
    ones = torch.ones(L, L, dtype=x.dtype).tril()
    return ones / ones.sum(-1, keepdim=True) @ x


@exercise.equivalent("a loop, and a mean for each row")
def _loop(x):
    rows = [x[..., : i + 1, :].mean(-2) for i in range(x.shape[-2])]
    return torch.stack(rows, -2)


@exercise.equivalent("a running mean, corrected by each token")
def _running(x):
    mean, rows = torch.zeros_like(x[..., 0, :]), []
    for n, token in enumerate(x.unbind(-2), 1):
        mean = mean + (token - mean) / n
        rows.append(mean)
    return torch.stack(rows, dim=-2)


@exercise.equivalent("the softmax of equal scores, the future at -inf")
def _softmax(x):
    L = x.shape[-2]
    scores = torch.zeros(L, L, dtype=x.dtype)
    future = torch.ones(L, L).triu(1).bool()
    weights = scores.masked_fill(future, -torch.inf).softmax(-1)
    return torch.einsum("ij,...je->...ie", weights, x)


@exercise.equivalent("features before tokens, a sum carried along")
def _carried(x):
    total, rows = 0, []
    for i in range(x.size(-2)):
        total = total + x.select(-2, i)
        rows.append(total / (i + 1))
    return torch.stack(rows, -1).mT
