"""Cases and properties of ``why-kernel_regression``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.sdp.draw import in_range
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import OF_ATTENTION


def kernel_regression(
    query: Tensor, key: Tensor, value: Tensor, bandwidth: float
) -> Tensor:
    """Loop over the queries, each with its own distances."""
    rows = []
    for q in query:
        r = torch.linalg.vector_norm(key - q, dim=-1)  # (S,)
        weights = functional.softmax(-0.5 * (r / bandwidth) ** 2)
        rows.append(weights @ value)
    return torch.stack(rows)


SIZES = {  # L, S, D, Dv, bandwidth
    "there is one key, so only its value counts": [(3, 1, 2, 4, 0.7)],
    "the bandwidth is 1": [(3, 5, 1, 2, 1.0), (4, 6, 3, 2, 1.0)],
    "the bandwidth is not 1": [
        (3, 5, 2, 4, 0.5),
        (2, 7, 4, 3, 3.0),
        (5, 3, 6, 1, 1.7),
    ],
    "axes have the same length": [(4, 4, 2, 3, 0.8), (4, 4, 4, 4, 1.3)],
    "there are many keys": [(3, 40, 2, 2, 0.9)],
    "the bandwidth is large: nearly the mean": [(3, 5, 2, 2, 50.0)],
}


def _cases(g: Draw) -> Iterator[Case]:
    def grid(*shape: int) -> Tensor:
        """Draw eighths, whose squares and sums float32 holds exactly."""
        return (8 * g.randn(*shape)).round() / 8

    for when, (L, S, D, Dv, h) in entries(SIZES):
        yield Case(when, (g.randn(L, D), g.randn(S, D), g.randn(S, Dv), h))

    when = "all keys are equally far, so the result is the mean"
    circle = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    yield Case(when, (torch.zeros(2, 2), circle, g.randn(3, 4), 0.6))

    when = "keys have different lengths"
    length = torch.tensor([0.2, 1.0, 3.0, 0.5, 2.0])[:, None]
    inputs = g.randn(3, 2), length * g.randn(5, 2), g.randn(5, 2), 0.9
    yield Case(when, inputs)

    when = "the queries are far from every key"
    level = torch.tensor([1.0, 0.0])  # so that distances are exact, too
    query, key = level * (grid(3, 2) + 20), level * grid(5, 2)
    yield Case(when, (query, key, g.randn(5, 3), 0.5), rtol=3e-4)
    inputs = grid(2, 1) - 60, grid(4, 1), g.randn(4, 2), 2.0
    yield Case(when, inputs, rtol=3e-4)

    when = "several keys are near, by a bandwidth that is not 1"
    for h in (0.03, 0.07, 0.2, 11.0):
        near = h * g.randn(3, 2), h * g.randn(5, 2)
        yield Case(when, (*near, g.randn(5, 2), h))

    # From 7.2 on, exp gives 0; from 6.6 on, too few digits for a name.
    when = "the queries are far from every key, and several are nearly as near"
    query = torch.tensor([[-6.0, 0.0], [6.5, 0.0], [7.5, 0.0]])
    rank = torch.randperm(4, generator=g)[:, None]
    key = torch.cat([torch.zeros(4, 1), rank / 4 + 0.125], -1)
    yield Case(when, (query, key, g.randn(4, 3), 0.5), rtol=3e-4)
    yield Case(when, (4 * query, key, g.randn(4, 3), 0.5), rtol=3e-4)

    when = "the bandwidth is small: the nearest key decides"
    inputs = grid(4, 2), grid(6, 2), g.randn(6, 3), 1 / 32
    yield Case(when, inputs, rtol=3e-4)

    when = "gradients flow back, and a query is exactly at a key"
    key = g.randn(5, 2)
    inputs = torch.cat([key[2:3], g.randn(2, 2)]), key, g.randn(5, 4), 0.9
    yield Case(when, inputs, grad=True)


exercise = Exercise(
    id="why-kernel_regression",
    points=2,
    reference=kernel_regression,
    cases=_cases,
    also=(
        views(),
        gradients(),
        ones("L S", "L Dv", "L D", "D Dv"),
    ),
    forbids=("scaled_dot_product_attention",),
    properties=(in_range,),
    breaks={**OF_ATTENTION, "weight = 1": lambda c: c.args[3] != 1},
)
