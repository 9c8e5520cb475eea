"""Cases and properties of ``mask-combine``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn.exercises.conditions import views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view
from attn.masks import causal, sliding_window

INF = torch.inf


def _as_bias(mask: Tensor) -> Tensor:
    return torch.where(mask, 0.0, -INF) if mask.dtype == torch.bool else mask


def _reference(*masks: Tensor) -> Tensor:
    together = torch.broadcast_tensors(*map(_as_bias, masks))
    return torch.stack(together).sum(0)


def _cases(g: Draw) -> Iterator[Case]:
    def bias(*shape: int) -> Tensor:
        """Draw a bias with at least one 0 and one -inf."""
        numbers, kind = g.randn(*shape), torch.rand(shape, generator=g)
        numbers = numbers.masked_fill(kind < 0.2, 0.0)
        numbers = numbers.masked_fill(kind > 0.8, -INF)
        at = torch.randperm(numbers.numel(), generator=g)[:3]
        numbers.view(-1)[at] = torch.tensor([0.0, -INF, 0.75])
        return numbers

    mask, size = g.mask, g.between(4, 6)
    windowed = sliding_window(2).dense(size)[0, 0] | mask(size, size)
    nothing, twice = torch.zeros(3, 4, dtype=torch.bool), bias(3, 4)
    low = torch.tensor([-80.0, 0.0, -40.0, 0.0, 0.0])
    table = {
        "there is one bool mask": [(mask(3, 5),), (mask(4, 4),)],
        "there is one additive mask": [(bias(3, 5),), (g.randn(4, 4),)],
        "there are two bool masks": [
            (causal().dense(size)[0, 0], windowed),
            (mask(3, 5), mask(3, 5)),
        ],
        "one mask is bool and one is additive": [
            (mask(3, 5), bias(3, 5)),
            (bias(4, 4), mask(4, 4)),
        ],
        "there are two additive masks": [
            (bias(3, 5), bias(3, 5)),
            (bias(4, 4), g.randn(4, 4)),
            (twice, twice),
        ],
        "a finite bias is very low": [(mask(3, 5), low), (bias(3, 5), low)],
        "the masks have different shapes": [
            (mask(4, 5), mask(2, 1, 1, 5)),
            (mask(2, 1, 1, 5), mask(4, 5)),
            (bias(3, 4, 5), mask(2, 1, 1, 5)),
            (mask(2, 1, 3, 3), torch.rand(2, 1, 1, generator=g), mask(3)),
            (mask(5), bias(4, 1)),
            (bias(4), mask(3, 1, 2, 4), mask(1, 1, 4)),
            (mask(1, 1, 1, 4),),
        ],
        "there are many masks, and several of them mask the same key": [
            (mask(3, 4), bias(3, 4), mask(3, 4), bias(3, 4)),
            (nothing, bias(3, 4), nothing),
        ],
    }
    for when, masks in entries(table):
        yield Case(when, masks)


def _masked(case: Case) -> Tensor:
    return _reference(*case.args) == -INF


exercise = Exercise(
    id="mask-combine",
    points=2,
    reference=_reference,
    cases=_cases,
    also=(views(),),
    properties=(
        Property(
            "The result is one float32 bias.",
            lambda case, out: out.dtype == torch.float32,
        ),
        Property(
            "There is NaN: where do a 0 and an infinity meet?",
            lambda case, out: not out.isnan().any(),
        ),
        Property(
            "A key that any mask masks must be -inf in the result.",
            lambda case, out: (out[_masked(case)] == -INF).all(),
        ),
        Property(
            "What all masks allow must be a finite number.",
            lambda case, out: out[~_masked(case)].isfinite().all(),
        ),
    ),
    breaks={
        "S = 1": lambda c: all(x.shape[-1] > 1 for x in c.args),
        "H = 1": lambda c: any(x.dim() > 2 for x in c.args),
        "L = S": lambda c: any(
            x.dim() > 1 and x.shape[-1] != x.shape[-2] for x in c.args
        ),
        "weight = 1": lambda c: any(
            x.is_floating_point()
            and x.isfinite().any()
            and x.unique().numel() > 2
            for x in c.args
        ),
        "contiguous strides": is_view,
    },
)
