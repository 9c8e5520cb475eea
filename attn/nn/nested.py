"""Pad nested tensors: attention here works on padded ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def pad(x: Any) -> tuple[Tensor, Tensor]:
    """Pad a jagged ``(B, j, E)`` to ``(B, L, E)``, ``L`` the longest length.

    The second result marks the real tokens, ``(B, L)``.
    """
    if x.layout != torch.jagged:
        raise TypeError(
            "a nested tensor must have layout torch.jagged "
            "(torch.nested.nested_tensor(..., layout=torch.jagged)); got "
            f"{x.layout}"
        )
    if x.dim() != 3:
        raise ValueError(
            f"a nested tensor must have 3 axes, (B, j, E); got {x.dim()}"
        )
    dense = x.to_padded_tensor(0.0)  # (B, L, E)
    lengths = x.offsets().diff()  # (B,)
    index = torch.arange(dense.shape[1], device=dense.device)
    return dense, index < lengths[:, None]


def pad_inputs(
    query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Pad nested queries, keys and values; equal tensors stay equal.

    Also return the real tokens of the query and the ``key_padding_mask``.
    """
    nested = [x.is_nested for x in (query, key, value)]
    if not all(nested):
        kinds = ", ".join("nested" if x else "dense" for x in nested)
        raise TypeError(
            "query, key and value must be all nested or all dense; got "
            f"{kinds}"
        )
    if key_padding_mask is not None:
        raise ValueError(
            "key_padding_mask must be None with nested tensors, which have no "
            "padding"
        )
    distinct = {id(x): x for x in (query, key, value)}
    padded = {i: pad(x) for i, x in distinct.items()}
    (q, valid), (k, k_valid), (v, _) = (
        padded[id(x)] for x in (query, key, value)
    )
    return q, k, v, valid, ~k_valid
