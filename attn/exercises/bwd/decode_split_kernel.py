"""Cases of ``bwd-decode_split_kernel``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.kernel import Emulated, amid, result
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import OF_ATTENTION, amid_others, kv_heads
from attn.functional import scaled_dot_product_attention


def launch(
    kernel: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    splits: int,
    chunk: int,
    rows: int = 16,
    block_s: int = 16,
) -> tuple[Tensor, Tensor]:
    """Launch one program per chunk of the keys of each key head.

    The outputs are compared in the inputs' dtype, that the weights may be
    rounded to; the lse in float32.
    """
    (H, D), (Hkv, S, _) = query.shape[::2], key.shape
    shape = Hkv, splits, H // Hkv, D + 1
    dtype = torch.promote_types(query.dtype, torch.float32)
    named = {"Q": query, "K": key, "V": value}
    with result(shape, dtype, names=("PART",), **named) as part:
        kernel[(splits, Hkv)](
            query, key, value, part, scale, S, chunk,
            query.stride(0), *key.stride()[:2], *value.stride()[:2],
            *part.stride()[:3], GROUP=H // Hkv, ROWS=rows, D=D,
            BLOCK_S=block_s,
        )  # fmt: skip
    return part[..., :D].to(query.dtype), part[..., D]


def _emulated(
    grid: Any, Q: Tensor, K: Tensor, V: Tensor, PART: Tensor, scale: float,
    _S: int, chunk: int, *_: int, GROUP: int, **_blocks: int,
) -> None:  # fmt: skip
    for split in range(grid[0]):
        keys = slice(split * chunk, (split + 1) * chunk)
        out, lse = scaled_dot_product_attention(
            Q.to(PART.dtype), K[:, keys].to(PART.dtype),
            V[:, keys].to(PART.dtype), scale=scale, enable_gqa=True,
            return_lse=True,
        )  # fmt: skip
        both = torch.cat([out, lse[..., None]], -1)  # (H, 1, D + 1)
        PART[:, split].copy_(both.unflatten(0, (-1, GROUP))[..., 0, :])


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        S: int,
        splits: int,
        chunk: int,
        H: int = 2,
        Hkv: int = 1,
        *,
        spread: float = 1.0,
        lift: float = 0.0,
        sign: int = 1,
        rising: float = 0.0,
        negative: bool = False,
        gaps: tuple[int, int, int] = (0, 0, 0),
        dtype: torch.dtype = torch.float32,
        **kwargs: Any,
    ) -> Case:
        D = 16
        q = torch.randn(H, 1, D, generator=g) * spread
        k = torch.randn(Hkv, S, D, generator=g)
        v = torch.randn(Hkv, S, D, generator=g) + lift
        if rising:  # a larger score for each later key
            k = k + rising * torch.arange(S)[:, None] * q[0].sign()
        if negative:
            q, k = q.abs(), -k.abs()
        tensors = tuple(
            amid(x.to(dtype), gap)
            for x, gap in zip((q, k, v), gaps, strict=True)
        )
        # Not the usual scale, so that the argument has to be used.
        scale = sign * 1.5 / D**0.5
        return Case(when, (*tensors, scale, splits, chunk), kwargs)

    own = (1, 4, 9)
    yield case("one tile holds all keys", 16, 1, 16)
    yield case("a chunk has several tiles", 48, 1, 48, rising=0.03)
    yield case("there are several splits", 48, 3, 16)
    yield case("the keys end inside a tile", 11, 1, 16, gaps=own)
    yield case("a chunk ends inside a tile", 50, 2, 25, gaps=own)
    yield case("there are several key heads", 16, 1, 16, 2, 2, gaps=own)
    yield case("heads share keys (GQA)", 27, 2, 16, 6, 2, gaps=own)
    yield case("the last chunks have no key", 20, 4, 16, gaps=own)
    when = "the scores are large"
    yield case(when, 32, 1, 32, spread=60.0)
    yield case(when, 48, 1, 48, spread=60.0, rising=-0.05)
    when = "all scores are very negative"
    yield case(when, 11, 1, 16, spread=60.0, negative=True, gaps=own)
    half = {"dtype": torch.float16, "gaps": own}
    yield case("the tensors are float16", 24, 2, 16, **half)
    when = "the tensors are float16, and the values add up to more"
    yield case(when, 40, 1, 64, **half, spread=0.0, lift=2000.0, block_s=32)


exercise = Exercise(
    id="bwd-decode_split_kernel",
    points=3,
    reference=Emulated(_emulated),
    launch=launch,
    cases=_cases,
    returns=("PART[..., :D]", "PART[..., D]"),
    breaks={**OF_ATTENTION, "H = 1": kv_heads, "zeroed memory": amid_others},
)
