"""Cases and properties of ``latent-indexer_loss``."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def indexer_loss(scores: Tensor, weights: Tensor, attn_mask: Tensor) -> Tensor:
    """Take the cross-entropy with the target, less its own entropy."""
    target = weights.detach().mean(1)
    target = target / target.sum(-1, keepdim=True)
    scores = scores.masked_fill(~attn_mask, -math.inf)
    cross = scores.logsumexp(-1) - torch.where(
        target > 0, target * scores, 0
    ).sum(-1)
    return (cross - torch.special.entr(target).sum(-1)).mean()


SIZES = {  # B, H, L, S
    "there is one row and one head": [(1, 1, 1, 5)],
    "there is one head": [(2, 1, 3, 6)],
    "there are several heads": [(2, 3, 4, 7), (1, 5, 3, 6)],
    "axes have the same length": [(3, 3, 3, 3), (2, 2, 4, 4)],
}


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        B: int,
        H: int,
        L: int,
        S: int,
        mask: Tensor | None = None,
        spread: float = 1.5,
        shift: float = 0.0,
    ) -> Case:
        if mask is None:
            mask = torch.ones(L, S, dtype=torch.bool)
        by_head = mask if mask.dim() == 2 else mask[:, None]
        weights = g.randn(B, H, L, S) * 1.5
        weights = weights.masked_fill(~by_head, -math.inf).softmax(-1)
        scores = g.randn(B, L, S) * spread + shift
        return Case(when, (scores, weights, mask))

    def causal(L: int) -> Tensor:
        return torch.ones(L, L, dtype=torch.bool).tril()

    for when, sizes in entries(SIZES):
        yield case(when, *sizes)
    when = "the mask is causal"
    yield case(when, 2, 3, 5, 5, causal(5))
    yield case(when, 2, 2, 7, 7, causal(7))
    when = "masked scores are the highest"
    future = case(when, 2, 3, 6, 6, causal(6))
    future.args[0][:] += (~causal(6)) * 8.0
    yield future
    when = "each sequence has its own mask"
    yield case(when, 3, 2, 4, 7, g.mask(3, 4, 7))
    when = "each row's scores are moved by a constant"
    yield case(when, 2, 3, 4, 7, shift=7.0)
    when = "some allowed keys have a weight of 0"
    sparse = case(when, 2, 3, 4, 7)
    sparse.args[1][..., 2:4] = 0
    sparse.args[1][:] /= sparse.args[1].sum(-1, keepdim=True)
    yield sparse
    when = "a sink takes a part of each head's weight"
    sunk = case(when, 2, 3, 4, 7)
    sunk.args[1][:] *= torch.rand(2, 3, 4, 1, generator=g) * 0.7 + 0.2
    yield sunk
    when = "the scores are large"
    yield case(when, 2, 3, 4, 7, spread=60.0)


def _one(_case: Case, out: Any) -> bool:
    return isinstance(out, Tensor) and out.dim() == 0


def _not_negative(_case: Case, out: Any) -> bool:
    return not (isinstance(out, Tensor) and out.numel() == 1 and out < -1e-4)


exercise = Exercise(
    id="latent-indexer_loss",
    points=2,
    reference=indexer_loss,
    cases=_cases,
    also=(
        views(),
        gradients(when="gradients flow back (none to the weights)"),
        ones("H", "B L"),
    ),
    properties=(
        Property("The loss is one number, a tensor without axes.", _one),
        Property(
            "The loss is below 0, which KL between two distributions never "
            "is: do the target and the softmax sum to 1 in each row?",
            _not_negative,
        ),
    ),
    breaks={
        "S = 1": lambda c: c.args[0].shape[-1] > 1,
        "H = 1": lambda c: c.args[1].shape[1] > 1,
        "L = S": lambda c: c.args[0].shape[-2] != c.args[0].shape[-1],
        "contiguous strides": is_view,
    },
)
