"""Cases and properties of ``mask-apply_mask``."""

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import heads, is_view, not_square

INF = torch.inf


def _reference(scores: Tensor, mask: Tensor) -> Tensor:
    return functional.softmax(scores.masked_fill(~mask, -INF))


SHAPES = {  # of the scores and the mask
    "there is one query": [(1, 6)],
    "there are several queries": [(4, 6), (5, 5), (2, 200)],
    "there are batch and head axes": [(2, 3, 4, 5), (2, 3, 4)],
    "there are five axes": [(2, 1, 2, 3, 4)],
    "axes have the same length": [(3, 3, 3, 3)],
    "some of the four axes have length 1": [(2, 3, 1, 5), (1, 1, 3, 4)],
}
BROADCAST = {  # of the scores, and of the mask
    "the mask is smaller than the scores and broadcasts": [
        ((2, 3, 4, 5), (2, 1, 1, 5)),
        ((2, 2, 4, 4), (2, 1, 4, 4)),
        ((2, 3, 4, 5), (4, 5)),
        ((4, 6), (6,)),
        ((3, 3, 3, 3), (3, 1, 1, 3)),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    def scores(*shape: int) -> Tensor:
        return g.randn(*shape) * 2

    for when, shape in entries(SHAPES):
        yield Case(when, (scores(*shape), g.mask(*shape)))
    for when, (shape, of_mask) in entries(BROADCAST):
        yield Case(when, (scores(*shape), g.mask(*of_mask)))

    when = "each query has all keys, or one"
    yield Case(when, (scores(3, 4), torch.ones(3, 4).bool()))
    yield Case(when, (scores(2, 1), torch.ones(2, 1).bool()))
    yield Case(when, (scores(3, 6), torch.eye(3, 6).bool()))

    when = "some allowed scores are exactly 0"
    yield Case(when, (torch.zeros(3, 4), g.mask(3, 4)))
    some = scores(3, 5)
    some[:, [0, 3]] = 0.0
    yield Case(when, (some, torch.ones(3, 5).bool().tril(1)))

    when = "all scores are large (about 100)"
    yield Case(when, (g.randn(3, 5) + 100, g.mask(3, 5)))

    when = "all scores are far below zero (about -20000)"
    allowed = g.mask(3, 5)
    yield Case(when, (_one_stands_out(scores(3, 5), allowed) - 2e4, allowed))

    everything = torch.ones(3, 5, dtype=torch.bool)
    low = _one_stands_out(scores(3, 5), everything) - 2e4
    yield Case(when, (low, everything))

    when = "masked scores are far above the allowed ones"
    low = _one_stands_out(scores(3, 5), allowed) - 2e4
    yield Case(when, (low.masked_fill(~allowed, 100.0), allowed))

    dead = g.mask(4, 5)
    dead[[0, 2]] = False
    for dtype in (torch.bfloat16, torch.float16):
        when = "the scores are in half precision"
        yield Case(when, (g.randn(3, 5).to(dtype), g.mask(3, 5)))
        allowed = g.mask(2, 1, 1, 4)
        high = _one_stands_out(g.randn(2, 3, 3, 4), allowed) + 100
        yield Case(when, (high.to(dtype), allowed))
        when = "half precision, and a query may attend to nothing"
        yield Case(when, (g.randn(4, 5).to(dtype), dead))

    when = "a query may attend to nothing"
    yield Case(when, (scores(4, 5), dead))
    yield Case(when, (scores(2, 2, 3, 4), dead[:3, :4].expand(2, 1, 3, 4)))
    column = torch.tensor([[True], [False], [True]])
    yield Case(when, (scores(3, 4), column))
    yield Case(when, (scores(1, 4), torch.zeros(1, 4).bool()))

    when = "gradients flow back and a query may attend to nothing"
    yield Case(when, (g.randn(4, 5), dead), grad=True)
    yield Case(when, (g.randn(2, 3, 4, 5), dead), grad=True)

    yield Case("the scores are float64", _halves_and_quarters(g))


def _one_stands_out(scores: Tensor, mask: Tensor) -> Tensor:
    """Put each row's first allowed key 40 above its other allowed keys.

    Its weight is then 1, also where float32 has no digits left for a sum:
    exp(scores - logsumexp) is a right answer too.
    """
    later = mask & (mask.cumsum(-1) > 1)
    return scores.masked_fill(later, -40.0)


def _halves_and_quarters(g: Generator) -> tuple[Tensor, Tensor]:
    """Draw equal scores in float64, with 1, 2 or 4 allowed keys.

    The weights are exact in float32 as well: a softmax in float32 that is
    cast back, as in transformers, is a right answer.
    """
    scores = torch.randint(-3, 4, (3, 1), generator=g).double()
    order = torch.rand(3, 6, generator=g).argsort(-1)  # a rank for each key
    return scores.repeat(1, 6), order < torch.tensor([[1], [2], [4]])


def _masked_is_zero(case: Case, out: Tensor) -> bool:
    scores, mask = case.args
    return not out[~mask.expand(scores.shape)].any()


def _sums_to_one(case: Case, out: Tensor) -> bool:
    scores, mask = case.args
    sums = out.double().sum(-1)[mask.expand(scores.shape).any(-1)]
    return torch.allclose(sums, torch.ones_like(sums), atol=0.02)


exercise = Exercise(
    id="mask-apply_mask",
    points=3,
    reference=_reference,
    cases=_cases,
    also=(
        views(),
        gradients(),
        ones("... L", "... S", "L S"),
    ),
    properties=(
        Property(
            "A masked key must get a weight of exactly 0, also in a query "
            "that may attend to nothing.",
            _masked_is_zero,
        ),
        Property(
            "The weights of a query must sum to 1 over the keys (the last "
            "axis) when it may attend to any of them.",
            _sums_to_one,
        ),
        Property(
            "Weights cannot be negative.",
            lambda case, out: not (out < 0).any(),
        ),
    ),
    breaks={
        "S = 1": lambda c: c.args[0].shape[-1] > 1,
        "H = 1": heads,
        "L = S": not_square,
        "contiguous strides": is_view,
    },
)
