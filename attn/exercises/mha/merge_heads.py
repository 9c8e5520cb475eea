"""Cases and properties of ``mha-merge_heads``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import all_sizes_differ, is_view

SHAPES = {
    "there is one token, so only the order of its features counts": [
        (3, 1, 2),
        (2, 4, 1, 3),
    ],
    "there is one head": [(1, 4, 6), (2, 1, 3, 5)],
    "there is a batch: four axes": [(2, 3, 5, 4), (3, 5, 2, 1), (1, 2, 7, 6)],
    "there is one sequence: three axes": [(3, 5, 4), (2, 6, 3)],
    "there are more axes in front": [(2, 3, 2, 4, 5)],
    "axes have the same length": [(3, 3, 3, 3), (2, 4, 4, 2), (2, 2, 2)],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, shape in entries(SHAPES):
        yield Case(when, (g.randn(*shape),))


def _has_the_shape(case: Case, out: object) -> bool:
    want = functional.merge_heads(*case.args).shape
    return getattr(out, "shape", None) == want


def _keeps_tokens_together(case: Case, out: Tensor) -> bool:
    if not _has_the_shape(case, out):
        return True
    rows = functional.merge_heads(*case.args)
    return torch.equal(out.sort(-1)[0], rows.sort(-1)[0])


exercise = Exercise(
    id="mha-merge_heads",
    points=1,
    reference=functional.merge_heads,
    cases=_cases,
    also=(
        views(),
        gradients(),
        ones("... H", "... L", "H L", "L D"),
    ),
    properties=(
        Property(
            "The result should have shape (..., L, H * D): one row for each "
            "token, its heads side by side.",
            _has_the_shape,
        ),
        Property(
            "A row of the result holds elements of several tokens: reshape "
            "and view never move an element. What has to happen before them?",
            _keeps_tokens_together,
        ),
    ),
    breaks={
        "H = 1": lambda c: c.args[0].shape[-3] > 1,
        "L = S": all_sizes_differ,
        "contiguous strides": is_view,
    },
)
