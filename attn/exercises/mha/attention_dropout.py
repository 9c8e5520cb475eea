"""Cases and properties of ``mha-attention_dropout``."""

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn.exercises.conditions import gradients, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def _reference(
    weights: Tensor, keep: Tensor, p: float, training: bool
) -> Tensor:
    """Drop in the words of the definition."""
    if not training:
        return weights
    zeros = torch.zeros_like(weights)
    return torch.where(keep, weights / (1 - p), zeros) if p < 1 else zeros


SHAPES = {  # p, training, and the shape of the weights
    "the module is not training": [(0.1, False, 4, 5), (0.7, False, 2, 3, 4)],
    "the module is training": [
        (0.1, True, 4, 6),
        (0.3, True, 4, 6),
        (0.7, True, 2, 3, 4, 5),
        (0.3, True, 1, 1, 3, 5),
        (0.6, True, 2, 1, 1, 4),
    ],
    "p is 0": [(0.0, True, 3, 4), (0.0, False, 3, 4)],
    "p is 1": [(1.0, True, 3, 4), (1.0, False, 3, 4)],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, (p, training, *shape) in entries(SHAPES):
        weights = g.randn(*shape).softmax(-1)
        inputs = weights, _keep(g, (*shape,), p), p, training
        yield Case(when, inputs, grad=p in (0, 1))  # nothing is divided by 0

    when = "whole rows are dropped, or kept"
    keep = torch.tensor([[False] * 4, [True] * 4, [True, False] * 2])
    yield Case(when, (g.randn(3, 4).softmax(-1), keep, 0.25, True))


def _keep(g: Generator, shape: tuple[int, ...], p: float) -> Tensor:
    """Toss coins; where 0 < p < 1 both sides occur in each row."""
    keep = torch.rand(shape, generator=g) >= p
    if 0 < p < 1:
        at = torch.randint(shape[-1], shape[:-1], generator=g)[..., None]
        keep = keep.scatter(-1, at, False)
        keep = keep.scatter(-1, (at + 1) % shape[-1], True)
    return keep


def _dropped_are_zero(case: Case, out: Tensor) -> bool:
    _, keep, _, training = case.args
    return not training or not out[~keep].any()


exercise = Exercise(
    id="mha-attention_dropout",
    points=2,
    reference=_reference,
    cases=_cases,
    also=(views(), gradients()),
    properties=(
        Property(
            "Where keep is False, the result must be exactly 0 in training.",
            _dropped_are_zero,
        ),
    ),
    breaks={
        "p = 0.5": lambda c: c.args[2] not in (0.0, 0.5, 1.0),
        "contiguous strides": is_view,
    },
)
