"""Cases and tiles that the two tiled exercises of chapter 11 share."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case

SIZES = {  # L, S, block_q, block_k, and D, Dv
    "one tile holds everything": [(2, 3, 4, 4), (1, 1, 1, 1)],
    "there are several blocks of keys": [(2, 9, 2, 3), (1, 7, 3, 2, 1, 1)],
    "there are several blocks of queries": [(6, 3, 2, 3), (5, 1, 2, 3)],
    "there are several of both": [
        (6, 6, 2, 3),
        (4, 8, 2, 2, 2, 5),
        (13, 11, 6, 5),
    ],
    "a tile is one pair": [(3, 4, 1, 1)],
    "the lengths are no multiples of a tile": [(7, 8, 3, 3), (5, 7, 4, 2)],
}
CAUSAL = {
    "is_causal, in one tile": [(4, 4, 4, 4)],
    "is_causal, in many tiles": [(8, 8, 2, 2), (7, 7, 3, 2)],
    "is_causal, with more keys than queries": [(4, 9, 2, 2), (1, 5, 2, 2)],
    "is_causal, with more queries than keys": [(9, 4, 2, 3)],
}


def cases(
    g: Draw,
    inputs: Callable[[Tensor, Tensor, Tensor, bool], tuple[Tensor, ...]],
    result: Callable[[Tensor, Tensor, Tensor], int],
    spread: float = 60.0,
    apart: float = 150.0,
) -> Iterator[Case]:
    """Draw cases from one tile to many, with and without causality.

    Args:
        g: draws the elements.
        inputs: makes the exercise's tensors from query, key, value and
            ``is_causal``.
        result: counts the elements of the result.
        spread: factor on the queries where scores are to be large.
        apart: of the scores of two rows, from 0, in opposite directions.
    """

    def case(
        when: str,
        L: int,
        S: int,
        block_q: int,
        block_k: int,
        D: int = 4,
        Dv: int = 3,
        *,
        lead: tuple[int, ...] = (),
        causal: bool = False,
        spread: float = 1.0,
        apart: float = 0.0,
        tight: bool = False,
        rtol: float = 0.0,
    ) -> Case:
        pairs = (L, D), (S, D), (S, Dv)
        q, k, v = (g.randn(*lead, *pair) for pair in pairs)
        q = q * spread
        if spread > 1 or apart:  # scores without a rounding error
            q, k = q.round(), k.round()
        if apart:  # every score of row 0 is high, and of row 1 low
            k[:, 0] = 1.0
            q[:2, 0] = torch.tensor([apart, -apart]) * math.sqrt(D)
        tensors = inputs(q, k, v, causal)
        # A copy of each input, twice the result, and 16 tiles.
        room = sum(x.numel() for x in tensors) + 2 * result(q, k, v)
        room += 16 * math.prod(lead) * block_q * block_k
        return Case(
            when,
            (*tensors, block_q, block_k),
            {"is_causal": True} if causal else {},
            max_live=room if tight else None,
            rtol=rtol,
        )

    for when, sizes in entries(SIZES):
        yield case(when, *sizes)
    for when, sizes in entries(CAUSAL):
        yield case(when, *sizes, causal=True)

    when = "there are batch and heads in front"
    yield case(when, 5, 7, 2, 4, lead=(2, 3))
    yield case(when, 7, 7, 2, 3, lead=(2,), causal=True)
    when = "axes have the same length"
    yield case(when, 3, 3, 2, 2, 3, 3, lead=(3,))

    yield case("the scores are large", 5, 9, 2, 3, spread=spread)

    when = "a row has high scores, and the next one low scores"
    # An lse of 150 is rounded to 1e-5, and so are the weights that it gives.
    yield case(when, 4, 7, 3, 3, apart=apart, rtol=1e-4)
    yield case(when, 4, 7, 3, 3, apart=apart, rtol=1e-4, causal=True)

    # D and Dv are 1, so that a row of scores is as large as an input.
    when = "there are many keys, and memory for tiles"
    yield case(when, 2, 128, 1, 4, 1, 1, lead=(2,), tight=True)
    yield case(when, 4, 160, 4, 4, 1, 1, lead=(2,), tight=True)
    when = "there are many queries, and memory for tiles"
    yield case(when, 64, 8, 4, 4, 1, 1, tight=True)
    when = "is_causal, and there is memory for tiles"
    yield case(when, 28, 28, 4, 4, 1, 1, causal=True, tight=True)


def blocks(length: int, size: int) -> list[slice]:
    """Cut an axis into blocks."""
    return [slice(i, min(i + size, length)) for i in range(0, length, size)]


def tile_scores(
    query: Tensor, key: Tensor, rows: slice, cols: slice, causal: bool
) -> Tensor:
    """Compute the scaled and masked scores of a tile."""
    scale = 1 / math.sqrt(query.shape[-1])
    scores = query[..., rows, :] @ key[..., cols, :].mT * scale
    if causal:
        row = torch.arange(rows.start, rows.stop)[:, None]
        column = torch.arange(cols.start, cols.stop)
        scores = scores.masked_fill(column > row, -math.inf)
    return scores
