"""Cases and properties of ``mha-split_heads``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import all_sizes_differ, argument, is_view

SHAPES = {  # of x, and then the number of heads
    "there is one token, so only the order of its features counts": [
        (1, 6, 3),
        (2, 1, 12, 2),
    ],
    "there is one head": [(4, 6, 1), (3, 2, 5, 1), (2, 1, 6, 1)],
    "there is a batch: three axes": [(2, 5, 12, 3), (3, 4, 10, 5)],
    "there is one sequence: two axes": [(5, 12, 4), (7, 6, 2)],
    "there are more axes in front": [(2, 3, 4, 10, 2), (2, 1, 3, 5, 6, 3)],
    "axes have the same length": [(3, 3, 9, 3), (2, 4, 16, 4)],
    "a head is one feature": [(2, 6, 3, 3)],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, (*shape, heads) in entries(SHAPES):
        yield Case(when, (g.randn(*shape), heads))


def _has_the_shape(case: Case, out: object) -> bool:
    want = functional.split_heads(*case.args).shape
    return getattr(out, "shape", None) == want


def _keeps_tokens_together(case: Case, out: Tensor) -> bool:
    if not _has_the_shape(case, out):
        return True
    rows = out.movedim(-3, -2).flatten(-2)  # (..., L, H * D)
    return torch.equal(rows.sort(-1)[0], case.args[0].sort(-1)[0])


exercise = Exercise(
    id="mha-split_heads",
    points=1,
    reference=functional.split_heads,
    cases=_cases,
    also=(
        views(),
        gradients(),
        ones("... L"),
    ),
    properties=(
        Property(
            "The result should have shape (..., H, L, D): the heads in "
            "front of the tokens, D features for each.",
            _has_the_shape,
        ),
        Property(
            "One token's features have ended up in the rows of another: "
            "reshape and view never move an element. Which step of yours "
            "moves them?",
            _keeps_tokens_together,
        ),
    ),
    breaks={
        "H = 1": lambda c: argument(c, 1, "num_heads") > 1,
        "L = S": all_sizes_differ,
        "contiguous strides": is_view,
    },
)
