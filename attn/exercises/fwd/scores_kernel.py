"""Cases of ``fwd-scores_kernel``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.kernel import Emulated, amid, result
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import OF_ATTENTION, amid_others, many_queries
from attn.exercises.triton_compat import triton


def launch(
    kernel: Any,
    query: Tensor,
    key: Tensor,
    scale: float,
    is_causal: bool = False,
    block_l: int = 16,
    block_s: int = 16,
) -> Tensor:
    """Launch one program per tile of scores."""
    (L, D), S = query.shape, key.shape[0]
    shape = (L, S)
    with result(shape, _dtype_of_scores(query), Q=query, K=key) as out:
        kernel[(triton.cdiv(L, block_l), triton.cdiv(S, block_s))](
            query, key, out, scale, L, S,
            query.stride(0), key.stride(0), out.stride(0),
            IS_CAUSAL=is_causal, D=D, BLOCK_L=block_l, BLOCK_S=block_s,
        )  # fmt: skip
    return out


def _dtype_of_scores(query: Tensor) -> torch.dtype:
    """Return float32, and float64 for the exact scores."""
    return torch.promote_types(query.dtype, torch.float32)


def _emulated(
    _grid: Any, Q: Tensor, K: Tensor, OUT: Tensor, scale: float,
    *_: int, IS_CAUSAL: bool, **_blocks: int,
) -> None:  # fmt: skip
    scores = Q.to(OUT.dtype) @ K.to(OUT.dtype).T * scale
    if IS_CAUSAL:
        future = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
    OUT.copy_(scores)


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        L: int,
        S: int,
        D: int = 16,
        *,
        gaps: tuple[int, int] = (0, 0),
        dtype: torch.dtype = torch.float32,
        sign: int = 1,
        **kwargs: Any,
    ) -> Case:
        sizes = ((L, D), (S, D))
        q, k = (
            amid(torch.randn(size, generator=g).to(dtype), gap)
            for size, gap in zip(sizes, gaps, strict=True)
        )
        # Not the usual scale, so that the argument has to be used.
        return Case(when, (q, k, sign * 1.5 / D**0.5), kwargs)

    yield case("one tile holds everything", 16, 16)
    yield case("there are several blocks of queries", 32, 16)
    yield case("there are several blocks of keys", 16, 48)
    when = "a tile is not square"
    yield case(when, 32, 64, 32, block_s=32)
    when = "the rows have gaps"
    yield case(when, 16, 16, gaps=(1, 4))
    when = "the queries end inside a block"
    yield case(when, 21, 16, gaps=(2, 3))
    when = "the keys end inside a block"
    yield case(when, 16, 27, gaps=(3, 2))
    yield case("is_causal, in one tile", 16, 16, is_causal=True)
    when = "is_causal, in many tiles"
    yield case(when, 40, 25, is_causal=True, gaps=(3, 2))
    when = "is_causal, and scale is negative"
    yield case(when, 16, 16, is_causal=True, sign=-1)
    when = "the tensors are float16"
    yield case(when, 18, 20, dtype=torch.float16, gaps=(1, 2))


exercise = Exercise(
    id="fwd-scores_kernel",
    points=2,
    reference=Emulated(_emulated),
    launch=launch,
    cases=_cases,
    ieee=True,
    breaks={
        **OF_ATTENTION,
        "position 0": many_queries,
        "zeroed memory": amid_others,
    },
)
