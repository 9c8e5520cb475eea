"""Exercise ``flash-tiled_forward``: FlashAttention, the forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.ch11_tiles import INF, blocks, cases, tile_scores
from attn.exercises.spec import Case, Exercise, Property


def tiled_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block_q: int,
    block_k: int,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor]:
    """The reference, in the same tiles."""
    result = functional.tiled_attention(
        query,
        key,
        value,
        is_causal=is_causal,
        return_lse=True,
        block_q=block_q,
        block_k=block_k,
    )
    assert isinstance(result, tuple)
    return result


def _room(q: Tensor, k: Tensor, v: Tensor, block_q: int, block_k: int) -> int:
    """An input, the output, or all tiles of a row of blocks."""
    largest = max(x.numel() for x in (q, k, v))
    out = q[..., 0].numel() * v.shape[-1]
    lead = q[..., 0, 0].numel()
    return max(largest, out, lead * block_q * k.shape[-2])


def _cases(g: Generator) -> Iterator[Case]:
    yield from cases(g, lambda q, k, v, causal: (q, k, v), _room)


exercise = Exercise(
    id="flash-tiled_forward",
    points=3,
    reference=tiled_forward,
    cases=_cases,
    hints=(
        "Two loops: over blocks of queries, and inside it over blocks of "
        "keys. A block of queries is finished before the next one begins.",
        "A tile alone is online_softmax([scores], [values]), with scores "
        "(block_q, block_k): a state. Merge it with the state of the keys so "
        "far. Put the outputs of all blocks of queries together with "
        "torch.cat along -2, and the lse along -1.",
        "Causal: row = arange(i, i + l)[:, None], column = arange(j, j + s); "
        "scores.masked_fill(column > row, -math.inf). Blocks that start "
        "behind the last row may be left out.",
    ),
    properties=(
        Property(
            "All scores are in memory at once. That is right, and it is not "
            "FlashAttention: no tensor may be much larger than an input.",
            lambda case, out: case.max_numel is None,
        ),
    ),
)


def walking(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block_q: int,
    block_k: int,
    is_causal: bool = False,
    *,
    fade: bool = True,
    fade_total: bool = True,
    scale: float | None = None,
    diagonal: Any = lambda r, c: c <= r,
    rows: Any = blocks,
    cols: Any = blocks,
    divide: Any = lambda out, total, count: out / total,
    log: Any = lambda top, total: top + total.log(),
) -> tuple[Tensor, Tensor]:
    """A right answer whose steps can be replaced by wrong ones."""
    outs, logs = [], []
    for r in rows(query.shape[-2], block_q):
        lead = query[..., r, 0].shape
        top, total = torch.full((*lead, 1), -INF), torch.zeros(*lead, 1)
        out = torch.zeros(*lead, value.shape[-1])
        parts = cols(key.shape[-2], block_k)
        for c in parts:
            s = tile_scores(
                query, key, r, c, is_causal, scale=scale, diagonal=diagonal
            )
            new = torch.maximum(top, s.amax(-1, keepdim=True))
            base = new.masked_fill(new == -INF, 0.0)
            w = (s - base).exp()
            old = (top - base).exp()
            total = total * (old if fade_total else 1.0)
            total = total + w.sum(-1, keepdim=True)
            out = out * (old if fade else 1.0) + w @ value[..., c, :]
            top = new
        outs.append(divide(out, total, len(parts)))
        logs.append(log(top, total)[..., 0])
    return torch.cat(outs, -2), torch.cat(logs, -1)


@exercise.misconception("not scaled", exposed_by="two keys")
def unscaled(query, key, value, block_q, block_k, is_causal=False):
    """The scores are the bare dot products. A tile is a piece of ordinary
    attention, and its scores are divided by the root of D. Where is that
    factor?"""
    return walking(query, key, value, block_q, block_k, is_causal, scale=1.0)


@exercise.misconception(
    "scaled by the size of the tile", exposed_by="several tiles"
)
def scaled_by_tile(query, key, value, block_q, block_k, is_causal=False):
    """The root is of block_k, or of a length. D is the number of features
    that a dot product adds up. Which axis of query is that?"""
    return walking(
        query, key, value, block_q, block_k, is_causal, scale=block_k**-0.5
    )


@exercise.misconception("the output is not corrected", exposed_by="many keys")
def no_fade(query, key, value, block_q, block_k, is_causal=False):
    """When a block of keys brings a larger score, total shrinks and out does
    not. What is the factor between the old maximum and the new one?"""
    return walking(query, key, value, block_q, block_k, is_causal, fade=False)


@exercise.misconception("the sum is not corrected", exposed_by="many keys")
def no_fade_total(query, key, value, block_q, block_k, is_causal=False):
    """When a block of keys brings a larger score, out shrinks and total does
    not: the weights sum to less than 1. Which line lacks the factor?"""
    return walking(
        query, key, value, block_q, block_k, is_causal, fade_total=False
    )


@exercise.misconception("nothing is corrected", exposed_by="many keys")
def no_correction(query, key, value, block_q, block_k, is_causal=False):
    """Blocks that were measured from different maxima are added up. By which
    factor is what came before too large, when the maximum rises?"""
    return walking(
        query,
        key,
        value,
        block_q,
        block_k,
        is_causal,
        fade=False,
        fade_total=False,
    )


@exercise.misconception(
    "a softmax in each tile, and their mean", exposed_by="many keys"
)
def mean_of_tiles(query, key, value, block_q, block_k, is_causal=False):
    """Every tile has a softmax of its own and the results are averaged. A tile
    of keys that nobody wants then counts as much as any other. What does the
    online softmax keep besides the output?"""
    states = [
        walking(
            query,
            key,
            value,
            block_q,
            block_k,
            is_causal,
            cols=lambda n, size, c=c: [c],
            divide=lambda out, total, count: (
                out / total.masked_fill(total == 0, 1.0)
            ),
        )
        for c in blocks(key.shape[-2], block_k)
    ]
    out = sum(x for x, _ in states) / len(states)
    return out, torch.stack([x for _, x in states]).logsumexp(0)


@exercise.misconception(
    "the rest behind the last whole tile is left out",
    exposed_by="lengths that are no multiples",
)
def whole_tiles(query, key, value, block_q, block_k, is_causal=False):
    """S // block_k tiles of keys leave out the rest. In a test with round
    numbers there is none. How many tiles are there, when the last one may be
    smaller?"""

    def whole(length, size):
        parts = blocks(length, size)
        full = [p for p in parts if p.stop - p.start == size]
        return full or parts

    return walking(query, key, value, block_q, block_k, is_causal, cols=whole)


@exercise.misconception(
    "the two block sizes are exchanged", exposed_by="the room that it takes"
)
def exchanged(query, key, value, block_q, block_k, is_causal=False):
    """The result does not depend on the sizes of the tiles, so an exchange is
    no mistake in the numbers, unless the loop also takes the positions from
    them. Here rows are counted from the tile of keys. Which of the two sizes
    belongs to the queries?"""

    def shifted(r, c):
        return c <= r // block_q * block_k + r % block_q

    return walking(
        query, key, value, block_q, block_k, is_causal, diagonal=shifted
    )


@exercise.misconception("is_causal is ignored", exposed_by="is_causal")
def not_causal(query, key, value, block_q, block_k, is_causal=False):
    """Every query sees every key, whatever is_causal says. Where in your loop
    does it occur?"""
    return walking(query, key, value, block_q, block_k, False)


@exercise.misconception(
    "causal within each tile", exposed_by="is_causal in many tiles"
)
def causal_in_tile(query, key, value, block_q, block_k, is_causal=False):
    """A triangle is laid over every tile, as if rows and columns of a tile
    both started at 0. A tile below the diagonal is all visible, and one above
    it not at all. What are the positions of the first query and the first key
    of a tile?"""
    return walking(
        query,
        key,
        value,
        block_q,
        block_k,
        is_causal,
        diagonal=lambda r, c: c - c.min() <= r - r.min(),
    )


@exercise.misconception(
    "whole tiles on the diagonal are visible", exposed_by="is_causal"
)
def blocks_on_diagonal(query, key, value, block_q, block_k, is_causal=False):
    """Tiles behind the diagonal are skipped, and those on it are taken whole:
    within a tile the future is visible. What has to happen inside the tiles
    that the diagonal crosses?"""
    return walking(
        query,
        key,
        value,
        block_q,
        block_k,
        is_causal,
        diagonal=lambda r, c: (c.min() <= r.max()) & (c == c),
    )


@exercise.misconception(
    "the lower right corner", exposed_by="more keys than queries"
)
def lower_right(query, key, value, block_q, block_k, is_causal=False):
    """The last query sees the last key. The task says top left: query i sees
    keys 0 to i, as in PyTorch. Which of the two do you get for L = S?"""
    shift = key.shape[-2] - query.shape[-2]
    if shift <= 0:
        shift = 0
    return walking(
        query,
        key,
        value,
        block_q,
        block_k,
        is_causal,
        diagonal=lambda r, c: c <= r + shift,
    )


@exercise.misconception("a token does not see itself", exposed_by="is_causal")
def strict(query, key, value, block_q, block_k, is_causal=False):
    """column < row leaves out the diagonal, and the first query sees nothing
    at all. Does a token see itself?"""
    return walking(
        query,
        key,
        value,
        block_q,
        block_k,
        is_causal,
        diagonal=lambda r, c: c < r,
        divide=lambda out, total, count: (
            out / total.masked_fill(total == 0, 1.0)
        ),
    )


@exercise.misconception("never divided by the sum", exposed_by="any input")
def not_normalised(query, key, value, block_q, block_k, is_causal=False):
    """The output is the sum of exp(score - top) * value, and the weights do
    not sum to 1. What is left to do after the last tile of keys?"""
    return walking(
        query,
        key,
        value,
        block_q,
        block_k,
        is_causal,
        divide=lambda out, total, count: out,
    )


@exercise.misconception("lse in base 2", exposed_by="the second result")
def base_two(query, key, value, block_q, block_k, is_causal=False):
    """Kernels keep log2 inside. The contract is the natural log. Which one
    does torch.log give?"""
    return walking(
        query,
        key,
        value,
        block_q,
        block_k,
        is_causal,
        log=lambda top, total: top + total.log2(),
    )


@exercise.misconception("lse is the maximum", exposed_by="the second result")
def lse_is_top(query, key, value, block_q, block_k, is_causal=False):
    """top alone, without log(total). The backward pass computes
    exp(score - lse), and would get weights that sum to more than 1. What is
    the log of exp(top) * total?"""
    return walking(
        query,
        key,
        value,
        block_q,
        block_k,
        is_causal,
        log=lambda top, total: top,
    )


@exercise.equivalent("three sums in the loop")
def _walk(query, key, value, block_q, block_k, is_causal=False):
    return walking(query, key, value, block_q, block_k, is_causal)


@exercise.equivalent("keys outside, queries inside")
def _keys_outside(query, key, value, block_q, block_k, is_causal=False):
    lead = query.shape[:-1]
    lse = torch.full(lead, -INF)
    out = torch.zeros(*lead, value.shape[-1])
    for c in blocks(key.shape[-2], block_k):
        for r in blocks(query.shape[-2], block_q):
            s = tile_scores(query, key, r, c, is_causal)
            own = s.logsumexp(-1)
            new = torch.logaddexp(lse[..., r], own)
            safe = new.masked_fill(new == -INF, 0.0)
            fade = (lse[..., r] - safe).exp()[..., None]
            part = (s - safe[..., None]).exp() @ value[..., c, :]
            out[..., r, :] = out[..., r, :] * fade + part
            lse[..., r] = new
    return out, lse


@exercise.equivalent("one query at a time")
def _one_by_one(query, key, value, block_q, block_k, is_causal=False):
    return walking(query, key, value, 1, block_k, is_causal)


@exercise.equivalent("skips what nobody sees")
def _skips(query, key, value, block_q, block_k, is_causal=False):
    outs, logs = [], []
    for r in blocks(query.shape[-2], block_q):
        end = min(key.shape[-2], r.stop) if is_causal else key.shape[-2]
        out, lse = walking(
            query, key, value, block_q, block_k, is_causal,
            rows=lambda n, size, r=r: [r],
            cols=lambda n, size, end=end: blocks(end, size),
        )  # fmt: skip
        outs.append(out)
        logs.append(lse)
    return torch.cat(outs, -2), torch.cat(logs, -1)
