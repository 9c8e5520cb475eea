"""Cases, properties and correct variants of ``mha-split_heads``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import gradients, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import all_sizes_differ, argument, is_view

SHAPES = {  # of x, and then the number of heads
    "there is one token, so only the order of its features counts": [
        (1, 6, 3),
        (2, 1, 12, 2),
    ],
    "there is one head": [(4, 6, 1), (3, 2, 5, 1)],
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
    also=(views(), gradients()),
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


@exercise.equivalent("view and permute, spelt out")
def _permute(x, num_heads):
    *lead, length, size = x.shape
    cut = x.reshape(*lead, length, num_heads, size // num_heads)
    n = len(lead)
    return cut.permute(*range(n), n + 1, n, n + 2).contiguous()


@exercise.equivalent("chunks, stacked")
def _chunks(x, num_heads):
    return torch.stack(x.chunk(num_heads, -1), -3)


@exercise.equivalent("slices, one head at a time")
def _slices(x, num_heads):
    d = x.shape[-1] // num_heads
    heads = [x[..., h * d : (h + 1) * d] for h in range(num_heads)]
    return torch.stack(heads, dim=-3)


@exercise.equivalent("filled in place")
def _filled(x, num_heads):
    d = x.shape[-1] // num_heads
    out = x.new_empty(*x.shape[:-2], num_heads, x.shape[-2], d)
    for h in range(num_heads):
        out[..., h, :, :] = x[..., h * d : (h + 1) * d]
    return out


@exercise.equivalent("an index")
def _index(x, num_heads):
    features = torch.arange(x.shape[-1]).view(num_heads, 1, -1)
    tokens = torch.arange(x.shape[-2]).view(1, -1, 1)
    return x[..., tokens, features]


@exercise.equivalent("movedim")
def _movedim(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).movedim(-2, -3)


@exercise.equivalent("windows of the features")
def _unfold(x, num_heads):
    d = x.shape[-1] // num_heads
    return x.unfold(-1, d, d).transpose(-3, -2)


@exercise.equivalent("strides")
def _strides(x, num_heads):
    d = x.shape[-1] // num_heads
    *lead, token, feature = x.stride()
    shape = (*x.shape[:-2], num_heads, x.shape[-2], d)
    stride = (*lead, d * feature, token, feature)
    return torch.as_strided(x, shape, stride, x.storage_offset())


@exercise.equivalent("one sequence at a time")
def _sequences(x, num_heads):
    if x.dim() > 2:
        return torch.stack([_sequences(one, num_heads) for one in x])
    return x.reshape(len(x), num_heads, -1).permute(1, 0, 2)
