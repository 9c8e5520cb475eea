"""Cases of ``fwd-attention_forward_kernel``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.kernel import Emulated, amid, result
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import OF_ATTENTION, amid_others, kv_heads
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
    """Launch one program per block of queries of each head."""
    H, L, D = query.shape
    S = key.shape[1]
    with result(query.shape, Q=query, K=key, V=value) as out:
        kernel[(triton.cdiv(L, block_l), H)](
            query, key, value, out, scale, L, S, q_offset,
            *query.stride()[:2], *key.stride()[:2],
            *value.stride()[:2], *out.stride()[:2],
            GROUP=H // key.shape[0], IS_CAUSAL=is_causal, D=D,
            BLOCK_L=block_l, BLOCK_S=block_s,
        )  # fmt: skip
    return out


def _emulated(
    _grid: Any, Q: Tensor, K: Tensor, V: Tensor, OUT: Tensor, scale: float,
    _L: int, _S: int, q_offset: int, *_: int, IS_CAUSAL: bool, **_blocks: int,
) -> None:  # fmt: skip
    OUT.copy_(
        scaled_dot_product_attention(
            Q, K, V, is_causal=IS_CAUSAL, scale=scale, enable_gqa=True,
            q_offset=q_offset,
        )
    )  # fmt: skip


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        L: int,
        S: int,
        H: int = 1,
        Hkv: int = 1,
        *,
        spread: float = 1.0,
        rising: float = 0.0,
        negative: bool = False,
        lift: float = 0.0,
        sign: int = 1,
        gaps: tuple[int, int, int] = (0, 0, 0),
        dtype: torch.dtype = torch.float32,
        **kwargs: Any,
    ) -> Case:
        D = 16
        q = torch.randn(H, L, D, generator=g) * spread
        k = torch.randn(Hkv, S, D, generator=g)
        v = torch.randn(Hkv, S, D, generator=g) + lift
        if rising:  # a larger score for each later key
            k = k + rising * torch.arange(S)[:, None] * q[:1, :1].sign()
        if negative:
            q, k = q.abs(), -k.abs()
        tensors = tuple(
            amid(x.to(dtype), gap)
            for x, gap in zip((q, k, v), gaps, strict=True)
        )
        # Not the usual scale, so that the argument has to be used.
        return Case(when, (*tensors, sign * 1.5 / D**0.5), kwargs)

    yield case("one tile holds everything", 16, 16)
    when = "there are several tiles of keys"
    yield case(when, 16, 32)
    yield case(when, 16, 64, rising=0.25, block_s=32)
    yield case("there are several blocks of queries", 32, 16)
    when = "there are several heads"
    yield case(when, 16, 16, 2, 2)
    yield case("heads share keys (GQA)", 16, 16, 4, 2)
    when = "the tensors have strides of their own"
    yield case(when, 16, 16, 2, 2, gaps=(1, 4, 9))
    when = "the keys end inside a tile"
    yield case(when, 16, 30, gaps=(2, 2, 2))
    yield case(when, 16, 37, gaps=(2, 2, 2))
    when = "the queries end inside a block"
    yield case(when, 21, 16, gaps=(2, 2, 2))
    yield case("is_causal, in one tile", 16, 16, is_causal=True)
    when = "is_causal, in many tiles"
    yield case(when, 32, 32, is_causal=True, block_l=32)
    yield case(when, 20, 20, is_causal=True, block_s=32)
    when = "is_causal, and scale is negative"
    yield case(when, 16, 16, is_causal=True, sign=-1)
    when = "is_causal, the queries being the last tokens"
    yield case(when, 10, 40, is_causal=True, q_offset=30)
    when = "is_causal, and the first queries see nothing"
    yield case(when, 20, 24, is_causal=True, q_offset=-18)
    when = "the scores are large"
    yield case(when, 16, 33, spread=60.0, is_causal=True, q_offset=9)
    when = "masked scores are far larger than the others"
    yield case(when, 16, 16, rising=4.0, is_causal=True)
    when = "all scores are very negative"
    yield case(when, 16, 21, spread=60.0, negative=True)
    when = "the tensors are float16"
    yield case(when, 16, 48, dtype=torch.float16, spread=0.3)
    when = "the tensors are float16, and the values add up to more"
    half = {"dtype": torch.float16, "spread": 0.0}
    yield case(when, 16, 80, **half, lift=1000.0, block_s=32)


exercise = Exercise(
    id="fwd-attention_forward_kernel",
    points=3,
    reference=Emulated(_emulated),
    launch=launch,
    cases=_cases,
    loads_once=("K", "V"),
    breaks={
        **OF_ATTENTION,
        "position 0": lambda c: c.kwargs.get("q_offset", 0) > 0,
        "H = 1": kv_heads,
        "zeroed memory": amid_others,
    },
)
