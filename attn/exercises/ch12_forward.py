"""Exercise ``fwd-attention_forward_kernel``: FlashAttention, in Triton."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from attn.exercises.kernel import (
    Emulated,
    amid,
    result,
    where_kernels_run,
)
from attn.exercises.spec import Case, Exercise
from attn.exercises.triton_compat import triton
from attn.functional import scaled_dot_product_attention


def launch(
    kernel: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    is_causal: bool = False,
    q_offset: int = 0,
    block_l: int = 16,
    block_s: int = 16,
) -> Tensor:
    """One program for each block of queries of each head."""
    query, key, value = map(where_kernels_run, (query, key, value))
    H, L, D = query.shape
    S = key.shape[1]
    with result(query.shape, query, key, value) as out:
        kernel[(triton.cdiv(L, block_l), H)](
            query, key, value, out, scale, L, S, q_offset,
            *query.stride()[:2], *key.stride()[:2],
            *value.stride()[:2], *out.stride()[:2],
            GROUP=H // key.shape[0], IS_CAUSAL=is_causal, D=D,
            BLOCK_L=block_l, BLOCK_S=block_s,
        )  # fmt: skip
    return out.cpu()


def _fill(
    grid: Any, Q: Any, K: Any, V: Any, OUT: Any, scale: float,  # noqa: N803
    L: int, S: int, q_offset: int, *strides: int,  # noqa: N803
    GROUP: int, IS_CAUSAL: bool, D: int, BLOCK_L: int, BLOCK_S: int,  # noqa: N803
) -> None:  # fmt: skip
    """The reference, in the kernel's place."""
    OUT.copy_(
        scaled_dot_product_attention(
            Q, K, V, is_causal=IS_CAUSAL, scale=scale, enable_gqa=True,
            q_offset=q_offset,
        )
    )  # fmt: skip


def _cases(g: Generator) -> Iterator[Case]:
    def case(
        stage: str,
        L: int,  # noqa: N803
        S: int,  # noqa: N803
        H: int = 1,  # noqa: N803
        Hkv: int = 1,  # noqa: N803
        *,
        D: int = 16,  # noqa: N803
        spread: float = 1.0,
        rising: bool = False,
        negative: bool = False,
        gaps: tuple[int, int, int] = (0, 0, 0),
        beside: float = torch.nan,
        dtype: torch.dtype = torch.float32,
        **kwargs: Any,
    ) -> Case:
        q = torch.randn(H, L, D, generator=g) * spread
        k = torch.randn(Hkv, S, D, generator=g)
        v = torch.randn(Hkv, S, D, generator=g)
        if rising:  # a larger score in every tile
            k = k + torch.arange(S)[:, None] / 4 * q[:1, :1].sign()
        if negative:
            q, k = q.abs(), -k.abs()
        # a scale that is not the usual one, so that it has to be used
        tensors = tuple(
            amid(x.to(dtype), beside, gap)
            for x, gap in zip((q, k, v), gaps, strict=True)
        )
        return Case(stage, (*tensors, 1.5 / D**0.5), kwargs)

    yield case("one tile holds everything", 16, 16)
    stage = "there are several tiles of keys"
    yield case(stage, 16, 32)
    yield case(stage, 16, 64, rising=True, block_s=32)
    yield case("there are several blocks of queries", 32, 16)
    stage = "there are several heads"
    yield case(stage, 16, 16, 2, 2)
    yield case("heads share keys (GQA)", 16, 16, 4, 2)
    stage = "the tensors have strides of their own"
    yield case(stage, 16, 16, 2, 2, gaps=(1, 4, 9), beside=0.7)
    stage = "the keys end inside a tile"
    yield case(stage, 16, 30, gaps=(2, 2, 2), beside=0.7)
    yield case(stage, 16, 37, gaps=(2, 2, 2))
    stage = "the queries end inside a block"
    yield case(stage, 21, 16, 2, 1, gaps=(2, 2, 2))
    yield case("is_causal, in one tile", 16, 16, is_causal=True)
    stage = "is_causal, in many tiles"
    yield case(stage, 40, 40, is_causal=True, block_l=32)
    stage = "is_causal, the queries being the last tokens"
    yield case(stage, 10, 40, is_causal=True, q_offset=30)
    stage = "is_causal, and the first queries see nothing"
    yield case(stage, 20, 24, is_causal=True, q_offset=-18)
    stage = "the scores are large"
    yield case(stage, 16, 33, spread=60.0, is_causal=True, q_offset=9)
    stage = "all scores are very negative"
    yield case(stage, 16, 16, spread=60.0, negative=True)
    stage = "the tensors are float16"
    yield case(stage, 16, 70, dtype=torch.float16, spread=0.3)


exercise = Exercise(
    id="fwd-attention_forward_kernel",
    points=3,
    reference=Emulated(_fill),
    launch=launch,
    cases=_cases,
    hints=(
        "It is tiled_forward of chapter 11 with one block of queries: the "
        "loop over blocks has become the grid. Load q once, "
        "(BLOCK_L, D), then go through the keys with range(0, S, BLOCK_S).",
        "A tile of pointers is a column of rows plus a row of features: "
        "K + column[:, None] * k_s + d[None, :], after K has been moved to "
        "its head by head // GROUP * k_h. Scores: tl.dot(q, tl.trans(k)) * "
        "scale, (l, s). Hide column >= S, and the future, with tl.where and "
        "-float('inf').",
        "new = tl.maximum(top, tl.max(s, 1)); base = new, with 0.0 where it "
        "is minus infinity; weights = tl.exp(s - base[:, None]); fade = "
        "tl.exp(top - base). Both total and out are multiplied by fade, and "
        "get tl.sum(weights, 1) and tl.dot(weights.to(v.dtype), v). At the "
        "end divide by total, with 1.0 where it is 0.",
    ),
)
