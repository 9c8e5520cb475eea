"""Cases, properties and correct variants of ``pos-permutation_test``."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.exercises.conditions import views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def permutation_test(out: Tensor, shuffled: Tensor, order: Tensor) -> Tensor:
    """Return how far each token's output moves, relative: the reference."""
    back = shuffled[..., order.argsort(), :]  # (..., L, E)
    return (back - out).norm(dim=-1) / out.norm(dim=-1)


ORDERS = {  # an order, the axes in front of it, and the features
    "the tokens stay where they are": [([0, 1, 2], 4)],
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
    also=(views(),),
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


@exercise.equivalent("the inverse by argsort")
def _argsort(out, shuffled, order):
    change = shuffled.index_select(-2, torch.argsort(order)) - out
    return change.square().sum(-1).sqrt() / out.square().sum(-1).sqrt()


@exercise.equivalent("token by token")
def _loop(out, shuffled, order):
    found = torch.zeros(out.shape[:-1])
    for row, token in enumerate(order.tolist()):
        one, two = out[..., token, :], shuffled[..., row, :]
        found[..., token] = (
            torch.dist(one, two)
            if one.dim() == 1
            else ((one - two).norm(dim=-1))
        )
        found[..., token] /= one.norm(dim=-1)
    return found


@exercise.equivalent("a permutation matrix")
def _matrix(out, shuffled, order):
    move = F.one_hot(order).to(out.dtype)  # row i: which token it is
    return (move.T @ shuffled - out).norm(dim=-1) / out.norm(dim=-1)


@exercise.equivalent("compared where they went, then put back")
def _there(out, shuffled, order):
    first = out[..., order, :]
    change = (shuffled - first).norm(dim=-1) / first.norm(dim=-1)
    return torch.empty_like(change).index_copy(-1, order, change)


@exercise.equivalent("scattered")
def _scatter(out, shuffled, order):
    index = order[:, None].expand(shuffled.shape)
    back = torch.zeros_like(out).scatter(-2, index, shuffled)
    return torch.linalg.vector_norm(back - out, dim=-1).div(
        torch.linalg.vector_norm(out, dim=-1)
    )
