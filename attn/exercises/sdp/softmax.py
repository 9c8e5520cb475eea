"""Cases and properties of ``sdp-softmax``."""

import math
from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.conditions import dtypes, gradients, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import all_sizes_differ, argument, is_view

SHAPES = {  # and dim
    "dim is not the last axis": [
        ((4, 4), 0),
        ((3, 5), 0),
        ((2, 3, 4), 1),
        ((5,), 0),
        ((2, 3, 4), -3),
        ((3, 3, 3), -2),
        ((2, 5, 3, 4), 1),
    ],
    "dim is the last axis": [
        ((2, 3, 4), 2),
        ((2, 3, 5, 4), 3),
        ((1, 1, 5), 2),
        ((4, 1, 1), 0),
    ],
}
ROWS = {
    "there is one row of scores": [(5,), (1,)],
    "there are several rows of scores": [(4, 4), (3, 5), (2, 3, 6), (4, 1)],
}


def _cases(g: Draw) -> Iterator[Case]:
    def scores(*shape: int) -> Tensor:
        return g.randn(*shape) * 2

    for when, rows in entries(ROWS):
        yield Case(when, (scores(*rows),))
    for when, (shape, dim) in entries(SHAPES):
        yield Case(when, (scores(*shape), dim))

    when = "a few scores are -inf, so their weights are 0"
    x = scores(4, 6)
    x[0, 2] = x[2, 0] = x[2, 5] = x[3, 1] = -math.inf
    yield Case(when, (x,))
    when = "a few scores are -inf, and the others are far below 0"
    low = (_spread(g, 4, 6) - 1200).masked_fill(x == -math.inf, -math.inf)
    yield Case(when, (low,))
    yield Case(when, (x - 1000,))

    when = "the scores are large"
    yield Case(when, (scores(3, 6) + 105,))
    yield Case(when, (scores(3, 6) - 115,))
    yield Case(when, (scores(1, 6) + 105,), {"dim": -1})
    peak = scores(2, 40)
    peak[:, 30] = 100.0
    yield Case(when, (peak,))
    yield Case(when, (_spread(g, 3, 6),))
    yield Case(when, (_spread(g, 4, 4).mT.contiguous(), 0))

    when = "the rows are at very different heights"
    heights = torch.tensor([-110.0, 110.0, 0.0])[:, None]
    yield Case(when, (scores(3, 5) + heights,))
    yield Case(when, ((scores(3, 5) + heights).mT.contiguous(), 0))
    yield Case(when, (_spread(g, 3, 5) + 20 * heights,))

    when = "the scores are large, in half precision"
    for dtype in (torch.bfloat16, torch.float16):
        yield Case(when, (_spread(g, 2, 5).to(dtype),))


def _spread(g: Generator, rows: int, columns: int) -> Tensor:
    """Draw scores from -1000 to 1000, far apart, so that one takes it all."""
    ladder = torch.linspace(-1000, 1000, columns).round()
    order = [torch.randperm(columns, generator=g) for _ in range(rows)]
    return torch.stack([ladder[i] for i in order])


def _dim(case: Case) -> int:
    return case.kwargs.get("dim", case.args[1] if len(case.args) > 1 else -1)


def _sums_to_one(case: Case, out: Tensor) -> bool:
    off = (out.double().sum(_dim(case)) - 1).abs() > 0.02
    return not bool(off.any())  # NaN has been reported already


def _keeps_order(case: Case, out: Tensor) -> bool:
    best, largest = (x.argmax(_dim(case)) for x in (case.args[0], out))
    return bool(out.isnan().any()) or torch.equal(best, largest)


def _axis(case: Case) -> int:
    """Return the length of the axis of the softmax."""
    x, dim = argument(case, 0, "x"), argument(case, 1, "dim")
    return x.shape[-1 if dim is None else dim]


exercise = Exercise(
    id="sdp-softmax",
    points=2,
    reference=functional.softmax,
    cases=_cases,
    also=(dtypes(torch.bfloat16, torch.float16), views(), gradients()),
    forbids=("softmax",),
    properties=(
        Property(
            "Weights cannot be negative: is that exp of something?",
            lambda case, out: not bool((out < 0).any()),
        ),
        Property(
            "The weights along dim must sum to 1, and these do not: what "
            "do you divide by?",
            _sums_to_one,
        ),
        Property(
            "The largest score must get the largest weight, and here it "
            "does not.",
            _keeps_order,
        ),
    ),
    breaks={
        "S = 1": lambda c: _axis(c) > 1,
        "L = S": lambda c: all_sizes_differ(c) and c.args[0].dim() > 1,
        "contiguous strides": is_view,
    },
)
