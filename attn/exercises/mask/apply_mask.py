"""Cases and properties of ``mask-apply_mask``."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.draw import some_allowed
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import heads, is_view, not_square

INF = torch.inf


def _reference(scores: Tensor, mask: Tensor) -> Tensor:
    return functional.softmax(scores.masked_fill(~mask, -INF))


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int, spread: float = 2.0) -> Tensor:
        return torch.randn(*shape, generator=g) * spread

    mask = partial(some_allowed, g)

    when = "there is one query"
    yield Case(when, (randn(1, 6), mask(1, 6)))

    when = "there are several queries"
    yield Case(when, (randn(4, 6), mask(4, 6)))
    yield Case(when, (randn(5, 5), mask(5, 5)))
    yield Case(when, (randn(3, 4), torch.ones(3, 4).bool()))
    yield Case(when, (randn(2, 1), torch.ones(2, 1).bool()))
    yield Case(when, (randn(3, 6), torch.eye(3, 6).bool()))
    yield Case(when, (randn(2, 200), mask(2, 200)))

    when = "there are batch and head axes"
    yield Case(when, (randn(2, 3, 4, 5), mask(2, 3, 4, 5)))
    yield Case(when, (randn(3, 3, 3, 3), mask(3, 3, 3, 3)))
    yield Case(when, (randn(2, 3, 4), mask(2, 3, 4)))
    yield Case(when, (randn(2, 1, 2, 3, 4), mask(2, 1, 2, 3, 4)))

    when = "some of the four axes have length 1"
    yield Case(when, (randn(2, 3, 1, 5), mask(2, 3, 1, 5)))
    yield Case(when, (randn(1, 1, 3, 4), mask(1, 1, 3, 4)))

    when = "the mask is smaller than the scores and broadcasts"
    yield Case(when, (randn(2, 3, 4, 5), mask(2, 1, 1, 5)))
    yield Case(when, (randn(2, 2, 4, 4), mask(2, 1, 4, 4)))
    yield Case(when, (randn(2, 3, 4, 5), mask(4, 5)))
    yield Case(when, (randn(4, 6), mask(6)))
    yield Case(when, (randn(3, 3, 3, 3), mask(3, 1, 1, 3)))

    when = "all scores are large (about 100)"
    yield Case(when, (randn(3, 5, spread=1) + 100, mask(3, 5)))

    when = "all scores are far below zero (about -20000)"
    allowed = mask(3, 5)
    yield Case(when, (_one_stands_out(randn(3, 5), allowed) - 2e4, allowed))

    when = "masked scores are far above the allowed ones"
    scores = _one_stands_out(randn(3, 5), allowed) - 2e4
    yield Case(when, (scores.masked_fill(~allowed, 100.0), allowed))

    when = "the scores are in half precision"
    for dtype in (torch.bfloat16, torch.float16):
        yield Case(when, (randn(3, 5, spread=1).to(dtype), mask(3, 5)))
        allowed = mask(2, 1, 1, 4)
        scores = _one_stands_out(randn(2, 3, 3, 4, spread=1), allowed)
        yield Case(when, ((scores + 100).to(dtype), allowed))

    dead = mask(4, 5)
    dead[[0, 2]] = False
    when = "a query may attend to nothing"
    yield Case(when, (randn(4, 5), dead))
    yield Case(when, (randn(2, 2, 3, 4), dead[:3, :4].expand(2, 1, 3, 4)))
    column = torch.tensor([[True], [False], [True]])
    yield Case(when, (randn(3, 4), column))
    yield Case(when, (randn(1, 4), torch.zeros(1, 4).bool()))

    when = "gradients flow back"
    yield Case(when, (randn(3, 5, spread=1), mask(3, 5)), grad=True)

    at = randn(2, 3, 2, 4, spread=1), mask(2, 1, 1, 4)
    yield Case(when, at, grad=True)

    when = "gradients flow back and a query may attend to nothing"
    yield Case(when, (randn(4, 5, spread=1), dead), grad=True)
    yield Case(when, (randn(2, 3, 4, 5, spread=1), dead), grad=True)

    when = "half precision, and a query may attend to nothing"
    for dtype in (torch.float16, torch.bfloat16):
        yield Case(when, (randn(4, 5, spread=1).to(dtype), dead))

    when = "the scores are float64, or a view of another tensor"
    yield Case(when, _halves_and_quarters(g))
    yield Case(when, (randn(5, 4, 3).transpose(0, 2), mask(3, 4, 5)))
    yield Case(when, (randn(1, 5).expand(4, 5), mask(5, 4).mT | dead))


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
