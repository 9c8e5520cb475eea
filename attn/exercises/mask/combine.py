"""Cases, properties and correct variants of ``mask-combine``."""

from collections.abc import Iterator
from functools import reduce

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
    nothing = torch.zeros(3, 4, dtype=torch.bool)
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
        ],
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


@exercise.equivalent("log of 1 and 0")
def _logarithms(*masks):
    total = torch.tensor(0.0)
    for mask in masks:
        is_bool = mask.dtype is torch.bool
        total = total + (mask.float().log() if is_bool else mask)
    return total


@exercise.equivalent("bools joined first, then the biases")
def _two_piles(*masks):
    shape = torch.broadcast_shapes(*(m.shape for m in masks))
    allowed, bias = torch.ones(shape, dtype=torch.bool), torch.zeros(shape)
    for mask in masks:
        if mask.dtype == torch.bool:
            allowed &= mask
        else:
            bias += mask
    return bias.masked_fill(~allowed, -INF)


@exercise.equivalent("where, and Python's sum")
def _python_sum(*masks):
    zero, inf = torch.tensor(0.0), torch.tensor(-INF)
    return sum(
        m if m.is_floating_point() else torch.where(m, zero, inf)
        for m in masks
    )


@exercise.equivalent("two at a time, by recursion")
def _recursion(*masks):
    first, *rest = masks
    if first.dtype == torch.bool:
        first = torch.full(first.shape, -INF).masked_fill(first, 0.0)
    return torch.add(first, _recursion(*rest)) if rest else first.clone()


@exercise.equivalent("written into a full result")
def _written(*masks):
    full = torch.broadcast_tensors(*masks)
    out = torch.zeros(full[0].shape)
    for mask in full:
        if mask.dtype == torch.bool:
            out[~mask] = -INF
        else:
            out = out + mask
    return out


@exercise.equivalent("in float64, then back")
def _in_double(*masks):
    total = torch.zeros((), dtype=torch.float64)
    for mask in masks:
        if mask.dtype == torch.bool:
            mask = torch.where(mask, 0.0, -INF)
        total = total + mask.double()
    return total.float()


@exercise.equivalent("functools.reduce")
def _reduced(*masks):
    def add(total, mask):
        if mask.dtype != torch.bool:
            return total + mask
        return torch.where(mask, total, -INF)

    return reduce(add, masks, torch.zeros(()))


@exercise.equivalent("stacked after broadcasting")
def _stacked(*masks):
    biases = [
        m.float() if m.is_floating_point() else m.float().log() for m in masks
    ]
    return torch.stack(torch.broadcast_tensors(*biases), -1).sum(-1)


@exercise.equivalent("the product of exponentials, then the logarithm")
def _product(*masks):
    total = torch.ones((), dtype=torch.float64)
    for mask in masks:
        total = total * (mask if mask.dtype == torch.bool else mask.exp())
    return total.log().float()
