"""Cases and tiles that the two tiled exercises of chapter 11 share."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from attn.exercises.spec import Case


def cases(
    g: Generator,
    inputs: Callable[[Tensor, Tensor, Tensor, bool], tuple[Any, ...]],
    max_live: Callable[[Tensor, Tensor, Tensor, int, int], int],
    large: float = 60.0,
) -> Iterator[Case]:
    """Draw cases from one tile to many, with and without causality.

    Args:
        g: draws the elements.
        inputs: makes the exercise's tensors from query, key, value and
            ``is_causal``.
        max_live: gives the memory needed, in elements, from query, key,
            value and the sizes of a tile.
        large: factor on the queries where scores are to be large.
    """

    def case(
        stage: str,
        *lead: int,
        L: int,
        S: int,
        D: int = 4,
        Dv: int = 3,
        tile: tuple[int, int] = (2, 3),
        causal: bool = False,
        spread: float = 1.0,
        view: bool = False,
        tight: bool = False,
    ) -> Case:
        def randn(length: int, width: int) -> Tensor:
            x = torch.randn(*lead, length, width, generator=g)
            return x.mT.contiguous().mT if view else x

        q, k, v = randn(L, D) * spread, randn(S, D), randn(S, Dv)
        return Case(
            stage,
            (*inputs(q, k, v, causal), *tile),
            {"is_causal": True} if causal else {},
            max_live=max_live(q, k, v, *tile) if tight else None,
        )

    stage = "one tile holds everything"
    yield case(stage, L=2, S=3, tile=(4, 4))
    yield case(stage, L=1, S=1, tile=(1, 1))

    yield case("there are several blocks of keys", L=2, S=9)

    yield case("there are several blocks of queries", L=6, S=3)

    stage = "there are several of both"
    yield case(stage, L=6, S=6)
    yield case(stage, L=4, S=8, D=2, Dv=5, tile=(2, 2))

    stage = "the lengths are no multiples of a tile"
    yield case(stage, L=7, S=8, tile=(3, 3))
    yield case(stage, L=5, S=7, tile=(4, 2))

    stage = "there are batch and heads in front"
    yield case(stage, 2, 3, L=5, S=7, tile=(2, 4))
    yield case(stage, 3, L=3, S=3, D=3, Dv=3, tile=(2, 2))

    yield case("is_causal, in one tile", L=4, S=4, tile=(4, 4), causal=True)

    stage = "is_causal, in many tiles"
    yield case(stage, L=8, S=8, tile=(2, 2), causal=True)
    yield case(stage, 2, L=7, S=7, causal=True)
    yield case(stage, L=7, S=7, tile=(3, 2), causal=True)

    stage = "is_causal, with more keys than queries"
    yield case(stage, L=4, S=9, tile=(2, 2), causal=True)

    stage = "is_causal, with more queries than keys"
    yield case(stage, L=9, S=4, causal=True)

    yield case("the scores are large", L=5, S=9, spread=large)

    stage = "the inputs are views of other tensors"
    yield case(stage, 2, L=5, S=7, view=True)

    stage = "the sequence is long, and there is memory for tiles alone"
    yield case(stage, L=24, S=24, D=2, Dv=2, tile=(4, 4), tight=True)


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
