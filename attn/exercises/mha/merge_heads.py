"""Cases, properties and correct variants of ``mha-merge_heads``."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import functional
from attn.exercises.conditions import gradients, views
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
    also=(views(), gradients()),
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


@exercise.equivalent("permute, contiguous, view")
def _permute(x):
    *lead, heads, length, size = x.shape
    n = len(lead)
    back = x.permute(*range(n), n + 1, n, n + 2).contiguous()
    return back.view(*lead, length, heads * size)


@exercise.equivalent("cat over the heads")
def _cat(x):
    return torch.cat(x.unbind(-3), dim=-1)


@exercise.equivalent("filled in place")
def _filled(x):
    *lead, heads, length, size = x.shape
    out = x.new_zeros(*lead, length, heads * size)
    for h in range(heads):
        out[..., h * size : (h + 1) * size] = x[..., h, :, :]
    return out


@exercise.equivalent("reshape copies when it must")
def _reshape(x):
    *lead, heads, length, size = x.shape
    return x.movedim(-3, -2).reshape(*lead, length, heads * size)


@exercise.equivalent("token by token")
def _tokens(x):
    return torch.stack([t.flatten(-2) for t in x.unbind(-2)], -2)


@exercise.equivalent("a sum of padded heads")
def _padded(x):
    heads, size = x.shape[-3], x.shape[-1]
    return sum(
        F.pad(x[..., h, :, :], (h * size, (heads - h - 1) * size))
        for h in range(heads)
    )


@exercise.equivalent("the axes in front folded into one")
def _folded(x):
    *lead, heads, length, size = x.shape
    one = x.reshape(-1, heads, length, size).permute(0, 2, 1, 3)
    return one.reshape(*lead, length, heads * size)
