"""Cases, properties and correct variants of ``pos-permutation_test``."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def permutation_test(out: Tensor, shuffled: Tensor, order: Tensor) -> Tensor:
    """Return how far each token's output moves, relative: the reference."""
    back = shuffled[..., order.argsort(), :]  # (..., L, E)
    return (back - out).norm(dim=-1) / out.norm(dim=-1)


def _cases(g: Draw) -> Iterator[Case]:
    def moved(
        when: str, order: list[int] | Tensor, *shape: int, by: float = 1.0
    ) -> Case:
        order = torch.as_tensor(order)
        out = g.randn(*shape)
        noise = by * g.randn(*shape)
        return Case(when, (out, out[..., order, :] + noise, order))

    when = "the tokens stay where they are"
    yield moved(when, [0, 1, 2], 3, 4)

    when = "two tokens change places"
    yield moved(when, [1, 0, 2], 3, 5)

    when = "the order is not its own inverse"
    yield moved(when, [1, 2, 0], 3, 4)
    yield moved(when, [2, 3, 1, 4, 0], 5, 3)
    yield moved(when, torch.randperm(9, generator=g), 9, 2)

    when = "nothing but the order changes, so that all is 0"
    yield moved(when, [3, 0, 1, 2], 4, 6, by=0.0)

    when = "there is a batch"
    yield moved(when, [2, 0, 3, 1], 3, 4, 5)
    yield moved(when, [1, 2, 3, 0], 4, 4, 4)

    when = "there are two axes in front"
    yield moved(when, [4, 2, 0, 1, 3], 2, 3, 5, 4)

    when = "the outputs are large, and the difference is small"
    order = torch.tensor([2, 0, 1, 3])
    out = 100 * g.randn(2, 4, 3)
    yield Case(when, (out, out[:, order] + g.randn(2, 4, 3), order))

    when = "the inputs are views"
    order = torch.tensor([1, 3, 0, 2])
    out, noise = g.randn(2, 6, 4).mT[..., :5], g.randn(2, 6, 4).mT[..., :5]
    yield Case(when, (out, noise, order))
    out, noise = g.randn(2, 2, 4, 3, 5).transpose(2, 3)
    yield Case(when, (out, noise, order))


def _one_a_token(case: Case, out: object) -> bool:
    return isinstance(out, Tensor) and out.shape == case.args[0].shape[:-1]


def _not_negative(case: Case, out: Tensor) -> bool:
    return bool((out >= 0).all())


exercise = Exercise(
    id="pos-permutation_test",
    points=2,
    reference=permutation_test,
    cases=_cases,
    properties=(
        Property(
            "There should be one number for each token: the shape of out "
            "without its last axis.",
            _one_a_token,
        ),
        Property("A length is never negative.", _not_negative),
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
