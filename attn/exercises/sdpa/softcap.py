"""Cases and properties of ``sdpa-softcap``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn.exercises.conditions import ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import heads, is_view, not_square


def softcap(
    scores: Tensor, cap: float, attn_mask: Tensor | None = None
) -> Tensor:
    """Squash the scores, then mask them."""
    return _mask(cap * torch.tanh(scores / cap), attn_mask)


def _mask(scores: Tensor, attn_mask: Tensor | None) -> Tensor:
    if attn_mask is None:
        return scores
    return scores.masked_fill(~attn_mask, -torch.inf)


SCORES = {  # the shape, their spread, and the cap
    "the cap is 1": [((4, 5), 3, 1.0)],
    "the cap is not 1": [
        ((3, 5), 3, 2.0),
        ((3, 5), 3, 0.5),
        ((3, 5), 3, 5),
        ((3, 5), 3, 2.7),
        ((2, 3, 4, 5), 3, 3.0),
    ],
    "the scores are far below the cap": [((4, 5), 2, 50.0)],
    "the scores are far above the cap": [((4, 5), 800, 30.0)],
}
MASKED = {  # the shape, that of the mask, and the cap
    "there is a mask": [
        ((3, 5), (3, 5), 2.0),
        ((2, 3, 4, 5), (2, 3, 4, 5), 0.7),
    ],
    "the mask is smaller than the scores and broadcasts": [
        ((2, 3, 4, 5), (4, 5), 2.0),
        ((3, 2, 4, 5), (3, 1, 1, 5), 4.0),
        ((2, 3, 4, 5), (3, 4, 5), 1.7),
        ((3, 3, 4, 5), (3, 4, 5), 0.6),
        ((3, 5), (5,), 3.0),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, (shape, spread, cap) in entries(SCORES):
        yield Case(when, (g.randn(*shape) * spread, cap))
    for when, (shape, of_mask, cap) in entries(MASKED):
        yield Case(when, (g.randn(*shape) * 3, cap, g.mask(*of_mask)))

    when = "the scores are far above the cap"
    yield Case(when, (torch.tensor([[-3000.0, 7.0, 3000.0]]), 20.0))

    when = "a query may attend to nothing"
    mask = g.mask(3, 4)
    mask[1] = False
    yield Case(when, (g.randn(3, 4) * 3, 2.0, mask))
    yield Case(when, (g.randn(3, 4) * 3, 2.0, torch.zeros(3, 4).bool()))

    when = "some allowed scores are exactly 0"
    yield Case(when, (torch.zeros(3, 4), 2.0, g.mask(3, 4)))

    when = "gradients flow back"  # with a mask, -inf + score has one, too
    yield Case(when, (g.randn(3, 5) * 3, 2.0), grad=True)
    inputs = g.randn(2, 3, 4) * 3, 0.8
    yield Case(when, inputs, {"attn_mask": None}, grad=True)


def _within_the_cap(case: Case, out: Tensor) -> bool:
    cap = case.args[1]
    finite = out[out.isfinite()]
    return bool((finite.abs() <= cap * 1.0001).all())


def _masked_is_minus_infinity(case: Case, out: Tensor) -> bool:
    mask = case.args[2] if len(case.args) > 2 else None
    if mask is None or out.shape != case.args[0].shape:
        return True
    return bool((out[~mask.expand(out.shape)] == -torch.inf).all())


exercise = Exercise(
    id="sdpa-softcap",
    points=2,
    reference=softcap,
    cases=_cases,
    also=(
        views(),
        ones("... H", "... L", "H L", "L S"),
    ),
    properties=(
        Property(
            "A score that is not masked must be between -cap and cap, and "
            "here one is not.",
            _within_the_cap,
        ),
        Property(
            "Where the mask is False the result must be -inf: any finite "
            "number leaves the key some weight.",
            _masked_is_minus_infinity,
        ),
    ),
    breaks={
        "H = 1": heads,
        "L = S": not_square,
        "cap = 50": lambda c: c.args[0].abs().max() > c.args[1],
        "contiguous strides": is_view,
    },
)
