"""Cases and properties of ``why-gradient_by_distance``."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attn.exercises.conditions import views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def gradient_by_distance(states: Tensor, weight: Tensor) -> Tensor:
    """Multiply the matrices of one step from the first to the last."""
    steps = [torch.diag(1 - h * h) @ weight for h in states[1:]]
    norms = [math.sqrt(len(weight))]
    for first in range(len(steps) - 1, -1, -1):
        product = steps[first]
        for step in steps[first + 1 :]:
            product = step @ product
        norms.append(torch.linalg.matrix_norm(product).item())
    return torch.tensor(norms, dtype=states.dtype)


SIZES = {  # L, E, and factors on what the tanh gets and on the weight
    "there is one state, the last one": [(1, 1, 1, 1), (1, 4, 1, 1)],
    "there are two states: one step": [(2, 3, 1, 1), (2, 5, 2, 1)],
    "a state is a single number (E = 1)": [(5, 1, 1, 2)],
    "there are several steps": [(4, 3, 1, 1), (9, 5, 1, 1), (3, 7, 0.5, 1)],
    "axes have the same length": [(4, 4, 1, 1)],
    "the tanh is saturated in some features": [(5, 4, 3, 2)],
    "the gradient grows with the distance": [(8, 6, 0.2, 3)],
}


def _cases(g: Draw) -> Iterator[Case]:
    def states(L: int, E: int, size: float) -> Tensor:
        return torch.tanh(size * g.randn(L, E))

    def weight(E: int, size: float) -> Tensor:
        return size * g.randn(E, E) / E**0.5

    when = "the states are 0, so that every tanh has slope 1"
    yield Case(when, (torch.zeros(4, 3), weight(3, 1)))
    yield Case(when, (torch.zeros(3, 5), weight(5, 2)))

    for when, (L, E, size, scale) in entries(SIZES):
        yield Case(when, (states(L, E, size), weight(E, scale)))

    when = "the gradient all but vanishes, and grows again"
    flat = torch.cat([states(7, 4, 0.1), torch.full((2, 4), 0.9995)])
    yield Case(when, (flat, weight(4, 8)))


exercise = Exercise(
    id="why-gradient_by_distance",
    points=2,
    reference=gradient_by_distance,
    cases=_cases,
    also=(views(),),
    properties=(
        Property(
            "Entry 0 must be the norm of the identity, the root of E: the "
            "last state is its own derivative.",
            lambda case, out: math.isclose(
                float(out[0]),
                case.args[0].shape[1] ** 0.5,
                rel_tol=1e-4,
            ),
        ),
        Property(
            "There must be an entry for each state, the last one included.",
            lambda case, out: len(out) == len(case.args[0]),
        ),
    ),
    breaks={
        "position 0": lambda c: len(c.args[0]) > 2,
        "L = S": lambda c: c.args[0].shape[0] != c.args[0].shape[1],
        "contiguous strides": is_view,
    },
)
