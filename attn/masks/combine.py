"""The one place where masks meet: combine several, apply them to scores."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attn.masks.mask import Mask
from attn.masks.patterns import padding

POLARITY = "True is padding in it, and may attend in attn_mask"


def apply_masks(scores: Tensor, *masks: Tensor | None) -> Tensor:
    """Mask the scores: ``-inf`` where a bool mask is False, plus any bias.

    Masks are broadcastable to the scores, ``(..., L, S)``, or None.
    """
    for mask in masks:
        if mask is not None and mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, -torch.inf)
        elif mask is not None:
            scores = scores + mask.to(scores.dtype)
    return scores


def combine_masks(
    first: Tensor | Mask | None,
    second: Tensor | Mask | None,
    dense: Callable[[Mask], Tensor | None] | None = None,
) -> Tensor | Mask | None:
    """Return the mask that allows what both allow and adds what both add.

    ``dense`` turns a ``Mask`` into booleans where the other is a tensor.
    """
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, Mask) and isinstance(second, Mask):
        return first & second
    a, b = (
        dense(mask) if dense and isinstance(mask, Mask) else mask
        for mask in (first, second)
    )
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    if b.dtype == torch.bool:
        a, b = b, a
    if a.dtype != torch.bool:
        return a + b
    return a & b if b.dtype == torch.bool else torch.where(a, b, -torch.inf)


def key_padding(
    mask: Tensor, shape: tuple[int, int], dtype: torch.dtype
) -> Tensor | Mask:
    """Convert the ``key_padding_mask`` of ``torch.nn.MultiheadAttention``.

    ``mask`` is True at padding, or a float to add: of ``shape``, ``(B, S)``,
    or ``(S,)`` for a batch of one. ``dtype`` is that of the queries.
    """
    if not isinstance(mask, Tensor):
        raise TypeError(
            "key_padding_mask must be a tensor (B, S), True = padding; got "
            f"{type(mask).__name__}: a Mask is an attn_mask"
        )
    rows = mask[None] if mask.dim() == 1 else mask
    if rows.shape != shape:
        raise ValueError(
            f"key_padding_mask must have shape (B, S) = {shape}; got "
            f"{tuple(mask.shape)}: {POLARITY}"
        )
    if mask.dtype == torch.bool:
        return padding(~rows)
    if mask.dtype not in (dtype, torch.float32):
        raise TypeError(
            "key_padding_mask must be bool (True = padding, as in torch) or "
            f"{dtype}, added to the scores; got {mask.dtype}: {POLARITY}"
        )
    return rows[:, None, None, :]
