"""The hard cases that every attention function meets, and one tolerance.

A result is judged by its distance from a float64 run. It may lie at most
twice as far as a rival's in the same dtype, plus a few roundings.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.testing import assert_close

import attn

ROUNDINGS = 16
#: Of two tensors, or of two sequences of them: equal elements and dtypes.
assert_equal = functools.partial(assert_close, rtol=0, atol=0)


class Sizes(NamedTuple):
    """One call's sizes, in the alphabet of the book."""

    name: str
    batch: tuple[int, ...]
    H: int
    Hkv: int
    L: int
    S: int
    D: int
    Dv: int

    def __str__(self) -> str:
        return self.name


SIZES = (
    Sizes("all sizes differ", (2,), 6, 2, 3, 7, 8, 5),
    Sizes("batch and heads collide", (2,), 2, 2, 4, 4, 4, 4),
    Sizes("one of everything", (1,), 1, 1, 1, 1, 1, 1),
    Sizes("one query", (2,), 4, 2, 1, 9, 8, 8),
    Sizes("one key", (2,), 3, 3, 5, 1, 4, 2),
    Sizes("more queries than keys", (3,), 2, 1, 9, 4, 3, 6),
    Sizes("odd sizes, one kv head", (3,), 5, 1, 11, 13, 7, 9),
    Sizes("no keys", (2,), 4, 2, 3, 0, 4, 5),
    Sizes("no queries", (2,), 4, 2, 0, 3, 4, 5),
    Sizes("no batch", (0,), 4, 2, 2, 3, 4, 5),
    Sizes("two axes", (), 1, 1, 5, 6, 4, 3),
    Sizes("three axes", (), 4, 2, 5, 6, 4, 3),
    Sizes("five axes", (2, 3), 4, 2, 3, 5, 4, 2),
)


def randn(
    *shape: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Draw normal numbers: in every dtype those of float64, rounded."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=g, dtype=torch.float64).to(dtype)


#: The same in float32.
randn32 = functools.partial(randn, dtype=torch.float32)


def qkv(
    sizes: Sizes, dtype: torch.dtype = torch.float64, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of those sizes; two axes when it says so."""
    g = torch.Generator().manual_seed(seed)
    _, batch, H, Hkv, L, S, D, Dv = sizes
    shapes = ((*batch, H, L, D), (*batch, Hkv, S, D), (*batch, Hkv, S, Dv))
    drop = sizes.name == "two axes"
    return tuple(
        torch.randn(s[1:] if drop else s, generator=g, dtype=torch.float64).to(
            dtype
        )
        for s in shapes
    )  # type: ignore[return-value]


def distance(x: Tensor, oracle: Tensor) -> float:
    """The largest error; infinities must stand at the same places."""
    assert x.shape == oracle.shape, (tuple(x.shape), tuple(oracle.shape))
    x, oracle = x.detach().double(), oracle.detach().double()
    finite = oracle.isfinite()
    assert torch.equal(x[~finite], oracle[~finite]), "infinities differ"
    error = (x - oracle)[finite].abs()
    assert not error.isnan().any(), "NaN where there should be a number"
    return float(error.max()) if error.numel() else 0.0


def assert_exact(
    ours: Tensor | Sequence[Tensor],
    oracle: Tensor | Sequence[Tensor],
    rival: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """``ours`` is as near to the float64 ``oracle`` as it can be asked to be.

    Args:
        ours: any float dtype; or a sequence, and then so are the others.
        oracle: the same thing in float64.
        rival: the same thing by another implementation, in the
            dtype of ``ours``.
    """
    if not isinstance(ours, Tensor):
        rivals = [None] * len(ours) if rival is None else rival
        for each in zip(ours, oracle, rivals, strict=True):
            assert_exact(*each)
        return
    assert oracle.dtype == torch.float64
    finite = oracle.detach()[oracle.detach().isfinite()].abs()
    size = max(1.0, float(finite.max())) if finite.numel() else 1.0
    few = ROUNDINGS * torch.finfo(ours.dtype).eps * size
    theirs = 0.0 if rival is None else distance(rival, oracle)
    error = distance(ours, oracle)
    assert error <= 2 * theirs + few, (
        f"error {error:.2e}; the rival's is {theirs:.2e} and {ROUNDINGS} "
        f"roundings are {few:.2e}"
    )


def assert_as_exact(
    ours: Tensor | Sequence[Tensor],
    *tensors: Tensor,
    rival: Callable = attn.scaled_dot_product_attention,
    **options: Any,
) -> None:
    """A result is as near to the reference's in float64 as a rival's is."""

    def wide(x: Any) -> Any:
        is_float = isinstance(x, Tensor) and x.is_floating_point()
        return x.double() if is_float else x

    double = {name: wide(x) for name, x in options.items()}
    exact = attn.scaled_dot_product_attention(*map(wide, tensors), **double)
    assert_exact(ours, exact, rival(*tensors, **options))
