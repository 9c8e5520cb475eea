"""Batches of sequences of different lengths, without padding in memory.

Our attention works on padded tensors. ``pad`` makes one of a jagged nested
tensor and says which tokens are real, ``unpad`` goes back.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def pad(x: Any) -> tuple[Tensor, Tensor]:
    """A jagged tensor as a padded one.

    Args:
        x: nested tensor of layout ``torch.jagged``, ``(B, j, E)``.

    Returns:
        ``(B, L, E)`` with zeros behind the real tokens, and which are
        real, bool ``(B, L)``; ``L`` is the longest length.

    Raises:
        TypeError: another layout.
    """
    if x.layout != torch.jagged:
        raise TypeError(
            f"a nested tensor has layout {x.layout}: it needs torch.jagged "
            "(torch.nested.nested_tensor(..., layout=torch.jagged))"
        )
    if x.dim() != 3:
        raise ValueError(
            f"a nested tensor has {x.dim()} axes: it needs (B, j, E)"
        )
    dense = x.to_padded_tensor(0.0)  # (B, L, E)
    lengths = x.offsets().diff()  # (B,)
    place = torch.arange(dense.shape[1], device=dense.device)
    return dense, place < lengths[:, None]


def unpad(dense: Tensor, valid: Tensor, like: Any) -> Tensor:
    """Back to the jagged shape of ``like``.

    Args:
        dense: ``(B, L, E)``.
        valid: which tokens are real, ``(B, L)``.
        like: the jagged tensor that ``pad`` was given: the result can be
            added to it.

    Returns:
        Nested tensor ``(B, j, E)``.
    """
    return torch.nested.nested_tensor_from_jagged(
        dense[valid], offsets=like.offsets()
    )
