"""Cases and properties of ``gqa-pool_heads``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view

SHAPES = {  # H, Hkv, D, and the other axis of a matrix
    "a head is one row (D = 1)": [(6, 3, 1, 2), (8, 2, 1, 3)],
    "a head is several rows": [
        (6, 3, 4, 5),
        (6, 2, 3, 7),
        (12, 3, 2, 5),
        (10, 5, 2, 3),
    ],
    "one head is left (Hkv = 1)": [
        (4, 1, 3, 5),
        (2, 1, 5, 4),
        (3, 1, 1, 1),
    ],
    "H = Hkv, so that nothing changes": [(3, 3, 4, 5)],
    "axes have the same length": [(4, 2, 2, 8), (4, 2, 4, 4), (9, 3, 3, 3)],
    "it is a bias: one axis": [(6, 3, 4), (6, 2, 3), (4, 1, 3)],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, (H, Hkv, *rest) in entries(SHAPES):
        # Each head has its own level, so that none passes for another.
        level = torch.randperm(H, generator=g).float() * 3
        heads = g.randn(H, *rest) + level.view(-1, *[1] * len(rest))
        yield Case(when, (heads.flatten(0, 1), H, Hkv))


def _right_shape(case: Case, out: Tensor) -> bool:
    weight, old, new = case.args
    return out.shape == (weight.shape[0] // old * new, *weight.shape[1:])


def _same_mean(case: Case, out: Tensor) -> bool:
    mean = case.args[0].mean(0)
    return not _right_shape(case, out) or torch.allclose(
        out.mean(0), mean, rtol=1e-3, atol=1e-3
    )


def _first_row(case: Case, out: Tensor) -> bool:
    weight, old, new = case.args
    if not _right_shape(case, out):
        return True
    rows = weight[:: len(weight) // old][: old // new]  # row 0 of its heads
    return torch.allclose(out[0], rows.mean(0), rtol=1e-3, atol=1e-3)


exercise = Exercise(
    id="gqa-pool_heads",
    points=2,
    reference=functional.pool_heads,
    cases=_cases,
    also=(
        views(),
        gradients(when="gradients flow back, to every head averaged"),
        ones("E"),
    ),
    properties=(
        Property(
            "Only axis 0 may change, from H * D rows to Hkv * D; a weight "
            "stays a matrix, a bias a vector.",
            _right_shape,
        ),
        Property(
            "Averaging heads does not change the mean of each column of "
            "weight, and here it does: is a sum divided by something else, "
            "or are heads left out?",
            _same_mean,
        ),
        Property(
            "Row 0 of new head 0 is the mean of row 0 of old heads 0 to "
            "G - 1, and here it is not: which rows were averaged?",
            _first_row,
        ),
    ),
    breaks={
        "H = 1": lambda c: 1 < c.args[2] < c.args[1],
        "L = S": lambda c: c.args[1] // c.args[2] != c.args[2],
        "contiguous strides": is_view,
    },
)
