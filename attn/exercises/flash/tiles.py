"""Cases and tiles that the two tiled exercises of chapter 11 share."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor

from attn.exercises.spec import Case


def cases(
    g: Generator,
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
        *lead: int,
        L: int,
        S: int,
        D: int = 4,
        Dv: int = 3,
        tile: tuple[int, int] = (2, 3),
        causal: bool = False,
        spread: float = 1.0,
        apart: float = 0.0,
        view: bool = False,
        shared: bool = False,
        tight: bool = False,
        rtol: float = 0.0,
    ) -> Case:
        def randn(length: int, width: int) -> Tensor:
            x = torch.randn(*lead, length, width, generator=g)
            return x.mT.contiguous().mT if view else x

        q, k, v = randn(L, D) * spread, randn(S, D), randn(S, Dv)
        if spread > 1 or apart:  # scores without a rounding error
            q, k = q.round(), k.round()
        if apart:  # every score of row 0 is high, and of row 1 low
            k[:, 0] = 1.0
            q[:2, 0] = torch.tensor([apart, -apart]) * math.sqrt(D)
        if shared:
            k, v = k[:1].expand_as(k), v[:1].expand_as(v)
        tensors = inputs(q, k, v, causal)
        # A copy of each input, twice the result, and 16 tiles.
        room = sum(x.numel() for x in tensors) + 2 * result(q, k, v)
        room += 16 * math.prod((*lead, *tile))
        return Case(
            when,
            (*tensors, *tile),
            {"is_causal": True} if causal else {},
            max_live=room if tight else None,
            rtol=rtol,
        )

    when = "one tile holds everything"
    yield case(when, L=2, S=3, tile=(4, 4))
    yield case(when, L=1, S=1, tile=(1, 1))

    when = "there are several blocks of keys"
    yield case(when, L=2, S=9)
    yield case(when, L=1, S=7, D=1, Dv=1, tile=(3, 2))

    when = "there are several blocks of queries"
    yield case(when, L=6, S=3)
    yield case(when, L=5, S=1)

    when = "there are several of both"
    yield case(when, L=6, S=6)
    yield case(when, L=4, S=8, D=2, Dv=5, tile=(2, 2))
    yield case(when, L=3, S=4, tile=(1, 1))

    when = "the lengths are no multiples of a tile"
    yield case(when, L=7, S=8, tile=(3, 3))
    yield case(when, L=5, S=7, tile=(4, 2))

    when = "there are batch and heads in front"
    yield case(when, 2, 3, L=5, S=7, tile=(2, 4))
    yield case(when, 3, L=3, S=3, D=3, Dv=3, tile=(2, 2))

    yield case("is_causal, in one tile", L=4, S=4, tile=(4, 4), causal=True)

    when = "is_causal, in many tiles"
    yield case(when, L=8, S=8, tile=(2, 2), causal=True)
    yield case(when, 2, L=7, S=7, causal=True)
    yield case(when, L=7, S=7, tile=(3, 2), causal=True)

    when = "is_causal, with more keys than queries"
    yield case(when, L=4, S=9, tile=(2, 2), causal=True)
    yield case(when, L=1, S=5, tile=(2, 2), causal=True)

    when = "is_causal, with more queries than keys"
    yield case(when, L=9, S=4, causal=True)

    yield case("the scores are large", L=5, S=9, spread=spread)

    when = "a row has high scores, and the next one low scores"
    # An lse of 150 is rounded to 1e-5, and so are the weights that it gives.
    yield case(when, L=4, S=7, tile=(3, 3), apart=apart, rtol=1e-4)

    when = "the inputs are views of other tensors"
    yield case(when, 2, L=5, S=7, view=True)
    yield case(when, 2, L=5, S=4, shared=True)

    # D and Dv are 1, so that a row of scores is as large as an input.
    narrow = {"D": 1, "Dv": 1, "tight": True}
    when = "there are many keys, and memory for tiles"
    yield case(when, 2, L=2, S=128, tile=(1, 4), **narrow)
    yield case(when, 2, L=4, S=160, tile=(4, 4), **narrow)
    when = "there are many queries, and memory for tiles"
    yield case(when, L=64, S=8, tile=(4, 4), **narrow)
    when = "is_causal, and there is memory for tiles"
    yield case(when, L=28, S=28, tile=(4, 4), causal=True, **narrow)


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
