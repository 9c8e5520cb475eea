"""A cache of fixed size, for graphs that are compiled once."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from attn.cache.base import (
    Cache,
    Seen,
    check_crop,
    check_fit,
    check_no_grad,
    check_pair,
    check_rows,
)

__all__ = ["StaticCache"]


class StaticCache(Cache):
    """Memory for a fixed number of tokens, taken once and written in place.

    What has not been written is never given back, whatever is in it.

    Args:
        batch: ``B``.
        num_kv_heads: ``Hkv``.
        capacity: tokens that fit.
        head_dim: ``D``.
        value_dim: ``Dv``; ``D`` when None.
        dtype, device: of keys and values.

    Source: transformers ``StaticCache``.
    """

    def __init__(
        self,
        batch: int,
        num_kv_heads: int,
        capacity: int,
        head_dim: int,
        value_dim: int | None = None,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ):
        shape = (batch, num_kv_heads, capacity)
        wide = head_dim if value_dim is None else value_dim
        for name, size in zip(
            ("batch", "num_kv_heads", "capacity", "head_dim", "value_dim"),
            (*shape, head_dim, wide),
            strict=True,
        ):
            if size < 0:
                raise ValueError(f"{name} is {size}: it needs 0 or more")
        self.key = torch.empty(*shape, head_dim, dtype=dtype, device=device)
        self.value = torch.empty(*shape, wide, dtype=dtype, device=device)

    @property
    def capacity(self) -> int:
        """Tokens that fit."""
        return self.key.shape[2]

    def update(self, key: Tensor, value: Tensor) -> Seen:
        """See ``Cache.update``. Memory that is written to has no gradient."""
        check_pair(key, value)
        check_fit("key", key, self.key)
        check_fit("value", value, self.value)
        check_no_grad(key, value)
        before = int(self.seq_len)
        end = before + key.shape[2]
        if end > self.capacity:
            raise ValueError(
                f"key has {key.shape[2]} tokens and {before} are there: "
                f"it needs at most {self.capacity - before} (capacity "
                f"{self.capacity})"
            )
        self.key[:, :, before:end] = key
        self.value[:, :, before:end] = value
        self.seq_len = end
        return Seen(self.key[:, :, :end], self.value[:, :, :end], before)

    def fork(self) -> Self:
        """See ``Cache.fork``: the memory is copied."""
        other = object.__new__(type(self))
        other.key, other.value = self.key.clone(), self.value.clone()
        other.seq_len = self.seq_len
        return other

    def crop(self, length: int) -> None:
        """See ``Cache.crop``."""
        check_crop(length, int(self.seq_len))
        self.seq_len = length

    def reorder(self, rows: Tensor) -> None:
        """See ``Cache.reorder``."""
        check_rows(rows, self.key.shape[0])
        self.key, self.value = self.key[rows], self.value[rows]
