"""Exercise ``flash-tiled_backward``: gradients by recomputation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.ch11_tiles import blocks, cases, tile_scores
from attn.exercises.spec import Case, Exercise, Property

Grads = tuple[Tensor, Tensor, Tensor]


def tiled_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    d_out: Tensor,
    block_q: int,
    block_k: int,
    is_causal: bool = False,
) -> Grads:
    """The reference: autograd, through all scores at once."""
    given = [x.detach().requires_grad_() for x in (query, key, value)]
    with torch.enable_grad():
        result = functional.scaled_dot_product_attention(
            *given, is_causal=is_causal
        )
    assert isinstance(result, Tensor)
    dq, dk, dv = torch.autograd.grad(result, given, d_out)
    return dq, dk, dv


def _cases(g: Generator) -> Iterator[Case]:
    def given(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple:
        out, lse = functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, return_lse=True
        )
        return q, k, v, out, lse, torch.randn(out.shape, generator=g)

    def room(
        q: Tensor, k: Tensor, v: Tensor, block_q: int, block_k: int
    ) -> int:
        lead = q[..., 0, 0].numel()
        wide = lead * max(block_q * k.shape[-2], block_k * q.shape[-2])
        return max(*(x.numel() for x in (q, k, v)), wide)

    # Larger ones leave nothing of the gradients but rounding.
    yield from cases(g, given, room, large=4.0)


exercise = Exercise(
    id="flash-tiled_backward",
    points=3,
    reference=tiled_backward,
    cases=_cases,
    hints=(
        "The same two loops as forward. In each tile compute the scores "
        "again; exp(scores - lse) are the weights, already normalised, "
        "because lse is the log of the whole row's sum.",
        "With p the weights and g the rows of d_out: dv += p.T @ g. The "
        "gradient of the weights is g @ v.T; that of the scores is p * (g @ "
        "v.T - delta), with delta = (out * d_out).sum(-1, keepdim=True).",
        "ds times the scale: dq[rows] += ds @ k * scale, dk[cols] += ds.mT @ "
        "q * scale. Causal: p is 0 where the column is behind the row.",
    ),
    properties=(
        Property(
            "All weights are in memory at once. No tensor may be much larger "
            "than an input.",
            lambda case, out: case.max_numel is None,
        ),
    ),
)


def walking(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    d_out: Tensor,
    block_q: int,
    block_k: int,
    is_causal: bool = False,
    *,
    weights: Any = lambda s, lse: (s - lse[..., None]).exp(),
    delta: Any = lambda out, g: (out * g).sum(-1, keepdim=True),
    slope: Any = lambda p, dp, delta: p * (dp - delta),
    scales: tuple[float | None, float | None] = (None, None),
    diagonal: Any = lambda r, c: c <= r,
    into: Any = lambda total, at, part: total[..., at, :].add_(part),
    rows: Any = blocks,
    cols: Any = blocks,
    values: Any = lambda p, g: p.mT @ g,
) -> Grads:
    """A right answer whose steps can be replaced by wrong ones."""
    root = 1 / math.sqrt(query.shape[-1])
    on_q, on_k = (root if x is None else x for x in scales)
    dq, dk, dv = (torch.zeros_like(x) for x in (query, key, value))
    lost = delta(out, d_out)
    for r in rows(query.shape[-2], block_q):
        for c in cols(key.shape[-2], block_k):
            s = tile_scores(query, key, r, c, is_causal, diagonal=diagonal)
            p = weights(s, lse[..., r])
            g = d_out[..., r, :]
            ds = slope(p, g @ value[..., c, :].mT, lost[..., r, :])
            into(dv, c, values(p, g))
            into(dq, r, ds @ key[..., c, :] * on_q)
            into(dk, c, ds.mT @ query[..., r, :] * on_k)
    return dq, dk, dv


@exercise.misconception("delta is left out", exposed_by="two keys")
def no_delta(*given, **said):
    """The gradient of the scores is p * (g @ v.T), without what a row loses:
    when one weight grows, all others shrink, because they sum to 1. What is
    the derivative of a softmax?"""
    return walking(
        *given, **said, delta=lambda o, g: 0 * (o * g).sum(-1, True)
    )


@exercise.misconception(
    "delta from the tile alone", exposed_by="several blocks of keys"
)
def delta_of_tile(*given, **said):
    """The row's loss is summed over the keys of this tile: (p * dp).sum(-1).
    That is right when one tile holds all keys. Over all keys it is the same
    as out times d_out, summed over the features, and that is known before the
    loop. Where do you get it from?"""
    return walking(
        *given,
        **said,
        slope=lambda p, dp, delta: p * (dp - (p * dp).sum(-1, keepdim=True)),
    )


@exercise.misconception(
    "a softmax within the tile", exposed_by="several blocks of keys"
)
def softmax_of_tile(*given, **said):
    """The weights of the tile sum to 1 by themselves: its softmax ignores the
    keys of all other tiles. exp(scores - lse) knows them all. Why was lse
    kept?"""

    def weights(s, lse):
        dead = (s == -math.inf).all(-1, keepdim=True)
        return s.masked_fill(dead, 0).softmax(-1).masked_fill(dead, 0)

    return walking(*given, **said, weights=weights)


@exercise.misconception("lse is in base 2", exposed_by="any input")
def base_two(*given, **said):
    """exp2(scores - lse): lse is a natural log here. Which exponential undoes
    it?"""
    return walking(
        *given,
        **said,
        weights=lambda s, lse: torch.exp2(s - lse[..., None]),
    )


@exercise.misconception("no scale on d_query", exposed_by="any input")
def no_scale_q(*given, **said):
    """The scores are q @ k.T times the scale, so the gradient of q has the
    scale, too. d_key has it already. What is missing?"""
    return walking(*given, **said, scales=(1.0, None))


@exercise.misconception("no scale on d_key", exposed_by="any input")
def no_scale_k(*given, **said):
    """The scores are q @ k.T times the scale, so the gradient of k has the
    scale, too. d_query has it already. What is missing?"""
    return walking(*given, **said, scales=(None, 1.0))


@exercise.misconception("no scale at all", exposed_by="any input")
def no_scale(*given, **said):
    """The scale was used to compute the scores and forgotten in their
    derivative. What is d(scale * q @ k.T) / dq?"""
    return walking(*given, **said, scales=(1.0, 1.0))


@exercise.misconception(
    "each tile overwrites the one before", exposed_by="several tiles"
)
def overwritten(*given, **said):
    """= in the place of +=: a query gets a gradient from every tile of keys,
    and only the last is kept. What adds up over which loop?"""
    return walking(
        *given,
        **said,
        into=lambda total, at, part: total[..., at, :].copy_(part),
    )


@exercise.misconception("is_causal is ignored", exposed_by="is_causal")
def not_causal(q, k, v, o, m, g, block_q, block_k, is_causal=False):
    """Hidden keys get weights, and gradients. exp(score - lse) is not 0 by
    itself where the forward pass hid the key. Where does is_causal occur?"""
    return walking(q, k, v, o, m, g, block_q, block_k, False)


@exercise.misconception(
    "causal within each tile", exposed_by="is_causal in many tiles"
)
def causal_in_tile(*given, **said):
    """The triangle is laid over every tile. What are the positions of the
    first query and the first key of a tile?"""
    return walking(
        *given, **said, diagonal=lambda r, c: c - c.min() <= r - r.min()
    )


@exercise.misconception("a token does not see itself", exposed_by="is_causal")
def strict(*given, **said):
    """The forward pass let a token see itself (column <= row), and this one
    does not. Both have to hide the same pairs. Which sign do you compare
    with?"""
    return walking(*given, **said, diagonal=lambda r, c: c < r)


@exercise.misconception(
    "the rest behind the last whole tile is left out",
    exposed_by="lengths that are no multiples",
)
def whole_tiles(*given, **said):
    """length // block tiles leave out the rest: the last keys get no gradient.
    How many tiles are there, when the last one may be smaller?"""

    def whole(length, size):
        parts = blocks(length, size)
        full = [p for p in parts if p.stop - p.start == size]
        return full or parts

    return walking(*given, **said, cols=whole)


@exercise.misconception(
    "d_value from the gradient of the scores", exposed_by="d_value"
)
def values_from_ds(*given, **said):
    """d_value is ds.T @ d_out, with the slope of the softmax in it. The output
    is p @ v: what is its derivative by v?"""
    q, k, v, o, m, g, block_q, block_k, *_ = given
    delta = (o * g).sum(-1, keepdim=True)
    dq, dk, _ = walking(*given, **said)
    dv = torch.zeros_like(v)
    causal = said.get("is_causal", False)
    for r in blocks(q.shape[-2], block_q):
        for c in blocks(k.shape[-2], block_k):
            p = (tile_scores(q, k, r, c, causal) - m[..., r, None]).exp()
            ds = p * (g[..., r, :] @ v[..., c, :].mT - delta[..., r, :])
            dv[..., c, :] += ds.mT @ g[..., r, :]
    return dq, dk, dv


@exercise.misconception("the slope of one weight alone", exposed_by="two keys")
def diagonal_only(*given, **said):
    """p * (1 - p) * dp is the derivative of a sigmoid: how a weight changes
    with its own score. It also changes with the scores of all others in its
    row. What is the sum over them?"""
    return walking(*given, **said, slope=lambda p, dp, delta: p * (1 - p) * dp)


@exercise.equivalent("tile by tile")
def _walk(*given, **said):
    return walking(*given, **said)


@exercise.equivalent("keys outside, queries inside")
def _keys_outside(q, k, v, o, m, g, block_q, block_k, is_causal=False):
    scale = q.shape[-1] ** -0.5
    dq, dk, dv = torch.zeros_like(q), [], []
    delta = (o * g).sum(-1)
    for c in blocks(k.shape[-2], block_k):
        own_k, own_v = 0.0, 0.0
        for r in blocks(q.shape[-2], block_q):
            s = tile_scores(q, k, r, c, is_causal)
            p = torch.exp(s - m[..., r].unsqueeze(-1))
            dp = torch.einsum("...ld,...sd->...ls", g[..., r, :], v[..., c, :])
            ds = p * (dp - delta[..., r].unsqueeze(-1)) * scale
            own_v = own_v + p.mT @ g[..., r, :]
            own_k = own_k + ds.mT @ q[..., r, :]
            dq[..., r, :] += ds @ k[..., c, :]
        dk.append(own_k)
        dv.append(own_v)
    return dq, torch.cat(dk, -2), torch.cat(dv, -2)


@exercise.equivalent("the mask as zeros in the weights")
def _zeros(q, k, v, o, m, g, block_q, block_k, is_causal=False):
    dq, dk, dv = (torch.zeros_like(x) for x in (q, k, v))
    lost = torch.einsum("...d,...d->...", o, g)[..., None]
    for r in blocks(q.shape[-2], block_q):
        for c in blocks(k.shape[-2], block_k):
            p = (tile_scores(q, k, r, c, False) - m[..., r, None]).exp()
            if is_causal:
                row = torch.arange(r.start, r.stop)[:, None]
                p = p.where(torch.arange(c.start, c.stop) <= row, 0.0)
            ds = p * (g[..., r, :] @ v[..., c, :].mT - lost[..., r, :])
            ds = ds / math.sqrt(q.shape[-1])
            dv[..., c, :] += p.mT @ g[..., r, :]
            dk[..., c, :] += ds.mT @ q[..., r, :]
            dq[..., r, :] += ds @ k[..., c, :]
    return dq, dk, dv


@exercise.equivalent("one query at a time")
def _one_by_one(q, k, v, o, m, g, block_q, block_k, is_causal=False):
    return walking(q, k, v, o, m, g, 1, block_k, is_causal)
