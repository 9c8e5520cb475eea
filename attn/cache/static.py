"""A cache of fixed size, for graphs that are compiled once."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor

from attn.cache import validation
from attn.cache.base import Cache, CacheView


class StaticCache(Cache):
    """Memory for a fixed number of tokens, allocated once, written in place.

    Memory that has not been written is never returned.

    Args:
        batch, num_kv_heads: ``B`` and ``Hkv``.
        capacity: tokens that fit.
        head_dim, value_dim: ``D`` and ``Dv``, which is ``D`` when None.
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
        sizes = {
            "batch": batch,
            "num_kv_heads": num_kv_heads,
            "capacity": capacity,
            "head_dim": head_dim,
            "value_dim": head_dim if value_dim is None else value_dim,
        }
        for name, size in sizes.items():
            if size < 0:
                raise ValueError(f"{name} must be 0 or more; got {size}")
        *shape, D, Dv = sizes.values()
        self.key = torch.empty(*shape, D, dtype=dtype, device=device)
        self.value = torch.empty(*shape, Dv, dtype=dtype, device=device)

    @property
    def capacity(self) -> int:
        """Return the number of tokens that fit."""
        return self.key.shape[2]

    def update(self, key: Tensor, value: Tensor) -> CacheView:
        validation.new_tokens(key, value, (self.key, self.value))
        validation.no_grad(key, value)
        before = int(self.seq_len)
        end = before + key.shape[2]
        if end > self.capacity:
            raise ValueError(
                f"key must have at most {self.capacity - before} tokens, as "
                f"{before} of {self.capacity} are stored; got {key.shape[2]}"
            )
        self.key[:, :, before:end] = key
        self.value[:, :, before:end] = value
        self.seq_len = end
        return CacheView(self.key[:, :, :end], self.value[:, :, :end], before)

    def fork(self) -> Self:
        other = copy.copy(self)
        other.key, other.value = self.key.clone(), self.value.clone()
        return other

    def crop(self, length: int) -> None:
        validation.crop(length, int(self.seq_len))
        self.seq_len = length

    def reorder(self, rows: Tensor) -> None:
        validation.rows(rows, self.key.shape[0])
        self.key, self.value = self.key[rows], self.value[rows]
