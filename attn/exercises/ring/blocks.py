"""Provide what tasks give: attention of one block, merger and gradients."""

from __future__ import annotations

import math

import torch
from torch import Tensor

State = tuple[Tensor, Tensor]


def attend(
    query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None = None
) -> State:
    """Return the state of queries over a block of keys; heads are shared."""
    scores, value = _scores(query, key, allowed), _copied(value, query)
    lse = scores.logsumexp(-1)
    return (scores - _finite(lse)[..., None]).exp() @ value, lse


def merge_states(first: State, second: State) -> State:
    """Merge two states over different keys, as in chapter 11."""
    lse = torch.logaddexp(first[1], second[1])
    a, b = ((x[1] - _finite(lse)).exp()[..., None] for x in (first, second))
    return a * first[0] + b * second[0], lse


def block_gradients(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    d_out: Tensor,
    allowed: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what one block of keys adds to the three gradients."""
    scale = query.shape[-1] ** -0.5
    scores = _scores(query, key, allowed)
    p = (scores - _finite(lse)[..., None]).exp()
    dp = d_out @ _copied(value, query).mT
    ds = p * (dp - (out * d_out).sum(-1, keepdim=True)) * scale
    dk, dv = (
        x.unflatten(1, (key.shape[1], -1)).sum(2)
        for x in (ds.mT @ query, p.mT @ d_out)
    )
    return ds @ _copied(key, query), dk, dv


GIVEN = {"attend": attend, "merge_states": merge_states}


def _scores(query: Tensor, key: Tensor, allowed: Tensor | None) -> Tensor:
    scores = query @ _copied(key, query).mT * query.shape[-1] ** -0.5
    if allowed is None:
        return scores
    return scores.masked_fill(~allowed, -math.inf)


def _copied(x: Tensor, query: Tensor) -> Tensor:
    return x.repeat_interleave(query.shape[1] // x.shape[1], 1)


def _finite(lse: Tensor) -> Tensor:
    return lse.masked_fill(lse == -math.inf, 0)
