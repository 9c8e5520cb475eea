"""Cases and gradients that ``bwd-dkdv_kernel`` and ``bwd-dq_kernel`` share."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.kernel import Emulated, amid, result
from attn.exercises.spec import Case
from attn.exercises.symmetry import OF_ATTENTION, amid_others, kv_heads
from attn.exercises.triton_compat import triton
from attn.functional import scaled_dot_product_attention

BREAKS: dict[str, Callable[[Case], Any]] = {
    **OF_ATTENTION,
    "position 0": lambda case: case.kwargs.get("q_offset", 0) > 0,
    "H = 1": kv_heads,
    "zeroed memory": amid_others,
}


def launching(*names: str) -> Callable[..., Any]:
    """Return what launches a kernel, one program a block of its results.

    Args:
        names: of the results: DQ, in blocks of queries of each head, or DK
            and DV, in blocks of keys of each key head.
    """

    def launch(
        kernel: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        d_out: Tensor,
        lse: Tensor,
        delta: Tensor,
        scale: float,
        is_causal: bool = False,
        q_offset: int = 0,
        block_l: int = 16,
        block_s: int = 16,
    ) -> Any:
        tensors = query, key, value, d_out, lse, delta
        (H, L, D), (Hkv, S, _) = query.shape, key.shape
        reads = zip(
            ("Q", "K", "V", "DO", "LSE", "DELTA"), tensors, strict=True
        )
        of_queries = names == ("DQ",)
        like, block = (query, block_l) if of_queries else (key, block_s)
        shape = like.shape if of_queries else (len(names), *like.shape)
        with result(shape, names=names, **dict(reads)) as out:
            stored = [out] if of_queries else list(out)
            kernel[(triton.cdiv(like.shape[1], block), len(like))](
                *tensors, *stored, scale, L, S, q_offset,
                *query.stride()[:2], *key.stride()[:2], *value.stride()[:2],
                *d_out.stride()[:2], lse.stride(0), *stored[0].stride()[:2],
                GROUP=H // Hkv, IS_CAUSAL=is_causal, D=D,
                BLOCK_L=block_l, BLOCK_S=block_s,
            )  # fmt: skip
        return out if of_queries else tuple(out)

    return launch


def by_formula(results: slice) -> Emulated:
    """Return a reference in a kernel's place: the formula, over all scores.

    It rounds where a kernel does: the weights are those of the given lse,
    and do not sum to exactly 1.

    Args:
        results: which of the gradients of Q, K and V the kernel stores.
    """

    def store(
        _grid: Any, Q: Tensor, K: Tensor, V: Tensor, DO: Tensor,
        LSE: Tensor, DELTA: Tensor, *rest: Any, IS_CAUSAL: bool,
        GROUP: int, **_blocks: int,
    ) -> None:  # fmt: skip
        stored = [x for x in rest if isinstance(x, Tensor)]
        scale, L, S, q_offset = rest[len(stored) :][:4]
        wide = torch.promote_types(Q.dtype, torch.float32)
        q, d_out = Q.to(wide), DO.to(wide)  # (H, L, D)
        k, v = (x.to(wide).repeat_interleave(GROUP, 0) for x in (K, V))
        seen = torch.ones(L, S, dtype=torch.bool)
        if IS_CAUSAL:
            seen = torch.arange(S) <= torch.arange(L)[:, None] + q_offset
        scores = q @ k.mT * scale
        weights = (scores - LSE.to(wide)[..., None]).exp()
        weights = torch.where(seen, weights, 0.0)  # (H, L, S)
        d_scores = weights * (d_out @ v.mT - DELTA.to(wide)[..., None])
        dk, dv = (
            x.unflatten(0, (-1, GROUP)).sum(1)
            for x in (d_scores.mT @ q * scale, weights.mT @ d_out)
        )
        gradients = (d_scores @ k * scale, dk, dv)
        for x, gradient in zip(stored, gradients[results], strict=True):
            x.copy_(gradient)

    return Emulated(store)


def cases(g: Draw) -> Iterator[Case]:
    """Yield a query, key, value, gradient, lse, delta and scale."""

    def case(
        when: str,
        L: int,
        S: int,
        H: int = 1,
        Hkv: int = 1,
        *,
        spread: float = 1.0,
        sign: int = 1,
        lift: float = 0.0,
        steep: float = 0.0,
        gaps: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0),
        dtype: torch.dtype = torch.float32,
        **kwargs: Any,
    ) -> Case:
        D = 16
        # Not the usual scale, so that the argument has to be used.
        scale = sign * 1.5 / D**0.5
        sizes = ((H, L, D), (Hkv, S, D), (Hkv, S, D), (H, L, D))
        q, k, v, do = (torch.randn(size, generator=g) for size in sizes)
        q = q * spread
        if lift:  # exp(112) is infinite, and no score is far from the others
            q[..., 0], k[..., 0] = lift, 3.0
        if steep:  # 77 000 before the scale, 29 000 after it
            odd, even = 1 - torch.arange(S) % 2 * 2, torch.arange(D) % 2 * 2
            q, k = q / 8 + 1 - even, k / 8 + odd[:, None]
            v, do = v / 8 + 1.5 * odd[:, None], steep + do
        q, k, v, do = (x.to(dtype) for x in (q, k, v, do))
        out, lse = scaled_dot_product_attention(
            q.double(), k.double(), v.double(), scale=scale, enable_gqa=True,
            is_causal=kwargs.get("is_causal", False),
            q_offset=kwargs.get("q_offset", 0), return_lse=True,
        )  # fmt: skip
        delta = (out * do.double()).sum(-1)
        tensors = zip((q, k, v, do), gaps, strict=False)
        rows = (amid(x.float(), gaps[4]) for x in (lse, delta))
        return Case(when, (*(amid(*x) for x in tensors), *rows, scale), kwargs)

    own = (1, 4, 9, 6, 3)
    yield case("one tile holds everything", 16, 16)
    yield case("there are several blocks of queries", 32, 16)
    yield case("there are several blocks of keys", 16, 64, block_s=32)
    yield case("there are several heads", 16, 16, 2, 2, gaps=own)
    yield case("heads share keys (GQA)", 16, 16, 6, 2, gaps=own)
    yield case("the keys end inside a tile", 16, 11, gaps=own)
    yield case("the queries end inside a block", 11, 16, gaps=own)
    yield case("is_causal, in one tile", 16, 16, is_causal=True)
    when = "is_causal, in many tiles"
    yield case(when, 32, 32, is_causal=True, block_l=32)
    yield case(when, 36, 36, is_causal=True, block_s=32)
    when = "is_causal, the queries being the last tokens"
    late = {"is_causal": True, "q_offset": 17, "block_s": 32}
    yield case(when, 18, 35, **late, gaps=own)
    when = "is_causal, and the first queries see nothing"
    yield case(when, 20, 24, is_causal=True, q_offset=-18, gaps=own)
    when = "is_causal, and scale is negative"
    yield case(when, 16, 16, is_causal=True, sign=-1, spread=4.0)
    yield case("the scores are large", 16, 16, lift=100.0)
    when = "all scores are very negative"
    yield case(when, 16, 11, lift=100.0, sign=-1, gaps=own)
    half = {"dtype": torch.float16, "gaps": own}
    yield case("the tensors are float16", 16, 20, **half)
    when = "the tensors are float16, and the gradients add up to more"
    yield case(when, 16, 16, **half, steep=3200.0)
