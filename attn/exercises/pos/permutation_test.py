"""Cases and properties of ``pos-permutation_test``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn.exercises.conditions import ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def permutation_test(out: Tensor, shuffled: Tensor, order: Tensor) -> Tensor:
    """Return how far each token's output moves, relative: the reference."""
    back = shuffled[..., order.argsort(), :]  # (..., L, E)
    return (back - out).norm(dim=-1) / out.norm(dim=-1)


ORDERS = {  # an order, the axes in front of it, and the features
    "the tokens stay where they are": [([0, 1, 2], 4), ([0], 3), ([0], 1, 4)],
    "two tokens change places": [([1, 0, 2], 5)],
    "the order is not its own inverse": [([1, 2, 0], 4), ([2, 3, 1, 4, 0], 3)],
    "there is a batch": [([2, 0, 3, 1], 3, 5)],
    "axes have the same length": [([1, 2, 3, 0], 4, 4)],
    "there are two axes in front": [([4, 2, 0, 1, 3], 2, 3, 4)],
}


def _cases(g: Draw) -> Iterator[Case]:
    def moved(
        when: str, order: Tensor, *sizes: int, size: float = 1, by: float = 1
    ) -> Case:
        *lead, E = sizes
        shape = (*lead, len(order), E)
        out = size * g.randn(*shape)
        return Case(
            when, (out, out[..., order, :] + by * g.randn(*shape), order)
        )

    for when, (order, *sizes) in entries(ORDERS):
        yield moved(when, torch.tensor(order), *sizes)

    when = "the order is not its own inverse"
    yield moved(when, torch.randperm(9, generator=g), 2)

    when = "nothing but the order changes, so that all is 0"
    yield moved(when, torch.tensor([3, 0, 1, 2]), 6, by=0)

    when = "the outputs are large, and the difference is small"
    yield moved(when, torch.tensor([2, 0, 1, 3]), 2, 3, size=100)


exercise = Exercise(
    id="pos-permutation_test",
    points=2,
    reference=permutation_test,
    cases=_cases,
    also=(
        views(),
        ones("... E"),
    ),
    properties=(
        Property(
            "There should be one number for each token: the shape of out "
            "without its last axis.",
            lambda case, out: (
                isinstance(out, Tensor)
                and out.shape == case.args[0].shape[:-1]
            ),
        ),
        Property(
            "A length is never negative.", lambda case, out: (out >= 0).all()
        ),
    ),
    breaks={
        "H = 1": lambda c: c.args[0].dim() > 2 and len(c.args[0]) > 1,
        "contiguous strides": is_view,
    },
)
