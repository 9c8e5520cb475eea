"""Cases and properties of ``latent-top_k_keys``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.conditions import ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def top_k_keys(scores: Tensor, k: int, attn_mask: Tensor) -> Tensor:
    """Count, for each key, the keys of its row that come before it."""
    here = torch.arange(scores.shape[-1])
    ahead = scores[..., None, :] > scores[..., None]
    tied = scores[..., None, :] == scores[..., None]
    ahead |= tied & (here < here[:, None])  # (B, L, S, S)
    rank = (ahead & attn_mask[..., None, :]).sum(-1)
    return (rank < k) & attn_mask


SIZES = {  # B, L, S, k
    "every key is allowed": [(1, 3, 7, 3), (2, 4, 9, 5)],
    "k is 1": [(2, 3, 6, 1)],
    "k is the number of keys, or more": [(2, 3, 5, 5), (1, 3, 4, 7)],
    "axes have the same length": [(4, 4, 4, 2), (3, 3, 3, 2)],
    "there is one query": [(2, 1, 7, 3), (1, 1, 5, 2)],
}


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        B: int,
        L: int,
        S: int,
        k: int,
        mask: Tensor | None = None,
        size: float = 1.0,
        shift: float = 0.0,
    ) -> Case:
        scores = g.randn(B, L, S) * size + shift
        if mask is None:
            mask = torch.ones(L, S, dtype=torch.bool)
        return Case(when, (scores, k, mask))

    for when, sizes in entries(SIZES):
        yield case(when, *sizes)

    def causal(L: int) -> Tensor:
        return torch.ones(L, L, dtype=torch.bool).tril()

    when = "the mask is causal"
    yield case(when, 1, 8, 8, 3, causal(8))
    yield case(when, 2, 9, 9, 6, causal(9))
    when = "masked keys have the highest scores"
    future = case(when, 2, 8, 8, 3, causal(8))
    future.args[0][:] += (~causal(8)) * 9.0
    yield future
    when = "each sequence has its own mask"
    yield case(when, 3, 4, 7, 3, g.mask(3, 4, 7))
    when = "all scores are below zero"
    yield case(when, 2, 7, 7, 3, causal(7), shift=-9.0)
    when = "the scores are large, above or below zero"
    yield case(when, 2, 7, 7, 3, causal(7), 300.0, -4e5)
    yield case(when, 2, 7, 7, 3, causal(7), 300.0, 4e5)
    yield case(when, 2, 7, 7, 3, causal(7), 1e9, -4e12)
    when = "the scores are tiny"
    yield case(when, 2, 7, 7, 3, causal(7), 1e-9)

    when = "a row allows nothing"
    dead = g.mask(5, 7)
    dead[2] = False
    yield case(when, 2, 5, 7, 3, dead)

    when = "scores are equal, and the first of them go first"
    same = torch.zeros(2, 6, 6)
    yield Case(when, (same, 2, causal(6)))
    few = torch.randint(0, 3, (2, 7, 21), generator=g).float()
    yield Case(when, (few, 5, torch.ones(7, 21, dtype=torch.bool)))
    yield Case(when, (few.clone(), 6, g.mask(2, 7, 21)))


def _bool(case: Case, out: Any) -> bool:
    return (
        isinstance(out, Tensor)
        and out.dtype == torch.bool
        and out.shape == case.args[0].shape
    )


def _allowed(case: Case, out: Any) -> bool:
    return not _bool(case, out) or not (out & ~case.args[2]).any()


def _count(case: Case, out: Any) -> bool:
    if not _bool(case, out):
        return True
    allowed = case.args[2].expand(out.shape).sum(-1)
    return bool((out.sum(-1) == allowed.clamp(max=case.args[1])).all())


exercise = Exercise(
    id="latent-top_k_keys",
    points=2,
    reference=top_k_keys,
    cases=_cases,
    also=(views(), ones("B L")),
    properties=(
        Property(
            "The result is a bool tensor with the shape of scores.", _bool
        ),
        Property(
            "A masked key is read. With a causal mask, that is the future.",
            _allowed,
        ),
        Property(
            "The number of keys that a row reads is not k, or all that it "
            "may attend to where these are fewer: what happens in early "
            "rows of a causal mask, and where scores are equal?",
            _count,
        ),
    ),
    breaks={
        "S = 1": lambda c: c.args[0].shape[-1] > 1,
        "L = S": lambda c: c.args[0].shape[-2] != c.args[0].shape[-1],
        "contiguous strides": is_view,
    },
)
