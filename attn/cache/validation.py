"""The checks that caches share, one function a subject."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.functional import validation as of_calls


def new_tokens(
    key: Tensor, value: Tensor, stored: Sequence[Tensor | None]
) -> None:
    """Require keys and values that fit each other and those stored, if any."""
    new = {"key": key, "value": value}
    for name, x in new.items():
        arguments.tensor(name, x)
        if x.dim() != 4:
            raise ValueError(
                f"{name} must have shape (B, Hkv, L, D); got {tuple(x.shape)}"
            )
        arguments.same_device(name, x, "key", key)
    if key.shape[:3] != value.shape[:3]:
        raise ValueError(
            "key and value must have equal shapes but for the last axis; got "
            f"{tuple(key.shape)} and {tuple(value.shape)}"
        )
    for (name, x), old in zip(new.items(), stored, strict=True):
        if old is None:
            continue
        B, H, _, D = old.shape
        if x.shape[:2] != old.shape[:2] or x.shape[3] != D:
            raise ValueError(
                f"{name} must have the shape of the cache, ({B}, {H}, L, "
                f"{D}); got {tuple(x.shape)}"
            )
        if x.dtype != old.dtype or x.device != old.device:
            raise TypeError(
                f"{name} must have dtype and device of the cache, "
                f"{old.dtype} on {old.device}; got {x.dtype} on {x.device}"
            )


def latents(
    latent: Tensor, rope_key: Tensor, index_key: Tensor | None
) -> None:
    """Require one head of latents and of keys, for the same tokens."""
    new = {"latent": latent, "rope_key": rope_key}
    for name, x in new.items():
        arguments.tensor(name, x)
        if x.dim() != 4 or x.shape[1] != 1:
            raise ValueError(
                f"{name} must have one head for all, (B, 1, L, width); got "
                f"{tuple(x.shape)}"
            )
    if index_key is not None:
        if index_key.dim() != 3:
            raise ValueError(
                "index_key must have shape (B, L, Di); got "
                f"{tuple(index_key.shape)}"
            )
        new["index_key"] = index_key[:, None]
    for name, x in new.items():
        if x.shape[:3] != latent.shape[:3] or x.dtype != latent.dtype:
            raise ValueError(
                f"{name} must have the tokens and dtype of latent, "
                f"{tuple(latent.shape[:3])} and {latent.dtype}; got "
                f"{tuple(x.shape[:3])} and {x.dtype}"
            )


def lengths(
    lengths: Any,
    batch: int,
    most: int,
    least: int = 0,
    name: str = "lengths",
) -> None:
    """Require a number of real tokens for each row."""
    is_tensor = isinstance(lengths, Tensor)
    if not is_tensor or lengths.dtype not in (torch.int64, torch.int32):
        got = lengths.dtype if is_tensor else type(lengths).__name__
        raise TypeError(f"{name} must be an integer tensor (B,); got {got}")
    fits = lengths.shape == (batch,)
    if fits and tracing.has_values(lengths):
        fits = all(least <= n <= most for n in lengths.tolist())
    if not fits:
        raise ValueError(
            f"{name} must have shape ({batch},) and values from {least} to "
            f"{most}; got {lengths.tolist()}"
        )


def no_grad(key: Tensor, value: Tensor) -> None:
    """Refuse tensors that a cache writes in place, or rounds."""
    instead = "a DynamicCache, which keeps gradients"
    of_calls.no_grad(instead, key=key, value=value)


def crop(length: int, seq_len: int, first: int = 0) -> None:
    """Require a length that was read, and tokens that are still stored."""
    arguments.count("length", length, 0)
    if length > seq_len:
        raise ValueError(
            f"length must be 0 to {seq_len}, the number of tokens read; got "
            f"{length}"
        )
    if first > 0 and length < seq_len:
        raise ValueError(
            f"length must be {seq_len}: the cache has forgotten the tokens "
            f"before position {first}, which the next token needs; got "
            f"{length}"
        )


def rows(rows: Tensor, batch: int) -> None:
    """Require indices of rows."""
    arguments.tensor("rows", rows)
    if rows.dim() != 1 or rows.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            f"rows must be integers (B,); got {rows.dtype} of shape "
            f"{tuple(rows.shape)}"
        )
    if not (rows.numel() and tracing.has_values(rows)):
        return
    if not (rows.min() >= 0 and rows.max() < batch):
        raise ValueError(
            f"rows must be 0 to {batch - 1}; got {int(rows.min())} to "
            f"{int(rows.max())}"
        )
