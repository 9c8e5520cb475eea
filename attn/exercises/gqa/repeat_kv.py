"""Cases and properties of ``gqa-repeat_kv``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view

SHAPES = {  # of x, and then n_rep
    "there are batch, heads, positions and features: four axes": [
        (2, 3, 2, 1, 2),
        (2, 3, 5, 4, 2),
        (1, 4, 3, 2, 3),
    ],
    "there are more copies than heads": [(2, 2, 5, 4, 3), (1, 2, 3, 6, 5)],
    "axes have the same length": [(3, 3, 3, 3, 3), (4, 2, 4, 2, 2)],
    "there is one head (multi-query attention)": [(2, 1, 5, 3, 4)],
    "n_rep is 1, so that nothing changes": [(2, 3, 5, 4, 1)],
    "there is no batch: three axes": [(2, 5, 4, 3), (3, 1, 4, 2)],
    "there are two axes before the heads: five axes": [
        (2, 4, 3, 5, 6, 2),
        (1, 2, 2, 3, 4, 3),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, (*shape, n_rep) in entries(SHAPES):
        yield Case(when, (g.randn(*shape), n_rep))


def _right_shape(case: Case, out: Tensor) -> bool:
    x, n_rep = case.args
    return out.shape == x.repeat_interleave(n_rep, -3).shape


def _neighbours(case: Case, out: Tensor) -> bool:
    x, n_rep = case.args
    if n_rep == 1 or not _right_shape(case, out):
        return True
    return torch.equal(out.select(-3, 0), out.select(-3, 1))


def _starts_as_x(case: Case, out: Tensor) -> bool:
    if not _right_shape(case, out):
        return True
    return torch.equal(out.select(-3, 0), case.args[0].select(-3, 0))


exercise = Exercise(
    id="gqa-repeat_kv",
    points=2,
    reference=functional.repeat_kv,
    cases=_cases,
    also=(
        views(),
        gradients(when="gradients flow back, and add up over the copies"),
        ones("... Hkv", "... S", "Hkv S", "S D"),
    ),
    properties=(
        Property(
            "Only the number of heads may change: n_rep times as many on "
            "axis -3, and every other axis as it was.",
            _right_shape,
        ),
        Property(
            "Head 0 of the result must be head 0 of x, untouched.",
            _starts_as_x,
        ),
        Property(
            "Heads 0 and 1 of the result must be the same when n_rep is 2 "
            "or more, and here they differ: in which order do the copies "
            "come?",
            _neighbours,
        ),
    ),
    breaks={
        "H = 1": lambda c: c.args[0].shape[-3] > 1 and c.args[1] > 1,
        "L = S": lambda c: c.args[0].shape[-3] != c.args[1] > 1,
        "contiguous strides": is_view,
    },
)
