"""Several masks as one: the caller's, padding, and ALiBi's bias."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attn.masks.mask import Mask
from attn.masks.patterns import padding


def both(
    first: Tensor | Mask | None,
    second: Tensor | Mask | None,
    dense: Callable[[Mask], Tensor | None],
) -> Tensor | Mask | None:
    """A mask that allows what both allow, and adds what both add.

    Args:
        first, second: as the ``attn_mask`` of any attention function.
        dense: makes booleans of a ``Mask``, where the other is a tensor.
    """
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, Mask) and isinstance(second, Mask):
        return first & second
    a = dense(first) if isinstance(first, Mask) else first
    b = dense(second) if isinstance(second, Mask) else second
    assert a is not None and b is not None
    if a.dtype == torch.bool:
        a, b = b, a
    if a.dtype == torch.bool:
        return a & b
    if b.dtype == torch.bool:
        return torch.where(b, a, -torch.inf)
    return a + b


def key_padding(
    mask: Tensor, shape: tuple[int, int], dtype: torch.dtype
) -> Tensor | Mask:
    """``torch.nn.MultiheadAttention``'s ``key_padding_mask`` as ours.

    Args:
        mask: True = padding, or a float to add, ``(B, S)``; ``(S,)`` for a
            batch of one.
        shape: ``(B, S)``.
        dtype: of the queries.

    Raises:
        ValueError, TypeError: another shape or dtype.
    """
    rows = mask[None] if mask.dim() == 1 else mask
    if rows.shape != shape:
        raise ValueError(
            f"key_padding_mask has shape {tuple(mask.shape)}: it needs "
            f"(B, S) = {shape}"
        )
    if mask.dtype == torch.bool:
        return padding(~rows)
    if mask.dtype not in (dtype, torch.float32):
        raise TypeError(
            f"key_padding_mask has dtype {mask.dtype}: it needs bool (True "
            f"= padding, as in torch) or {dtype} to be added to the scores"
        )
    return rows[:, None, None, :]
