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

    Called from Python, an update returns the keys that were written. Within
    ``torch.compile`` it returns the whole memory, and ``seq_len`` and
    ``q_offset`` are tensors: nothing in the graph depends on the number of
    tokens, and one graph serves every step of decoding (a second one, with
    another ``L``, the prefill). Memory that was not written is zero, and
    behind every real key: ``is_causal`` with the ``q_offset`` hides it, and
    any other mask must be combined with ``valid()``.

    Args:
        batch, num_kv_heads: ``B`` and ``Hkv``.
        capacity: tokens that fit. A graph does not check it: on a CPU it
            raises an IndexError, on a GPU the device stops.
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
        # Zeros: a weight of 0 does not hide a NaN.
        self.key = torch.zeros(*shape, D, dtype=dtype, device=device)
        self.value = torch.zeros(*shape, Dv, dtype=dtype, device=device)
        self._end = torch.zeros((), dtype=torch.long, device=device)
        self._seq_len: int | None = 0  # None after a graph has moved _end

    @property
    def seq_len(self) -> int | Tensor:
        if torch.compiler.is_compiling():
            return self._end
        if self._seq_len is None:
            self._seq_len = int(self._end)
        return self._seq_len

    @seq_len.setter
    def seq_len(self, end: int | Tensor) -> None:
        self._seq_len = int(end)
        self._end.fill_(self._seq_len)

    @property
    def capacity(self) -> int:
        """Return the number of tokens that fit."""
        return self.key.shape[2]

    def mask_lengths(self, length: int) -> tuple[int, ...]:
        if torch.compiler.is_compiling():
            return (self.capacity,)
        return (*super().mask_lengths(length), self.capacity)

    def valid(self) -> Tensor | None:
        if not torch.compiler.is_compiling():
            return None
        index = torch.arange(self.capacity, device=self.key.device)
        return (index < self._end)[None]

    def update(self, key: Tensor, value: Tensor) -> CacheView:
        validation.new_tokens(key, value, (self.key, self.value))
        validation.no_grad(key, value)
        if torch.compiler.is_compiling():
            return self._update_in_graph(key, value)
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

    def _update_in_graph(self, key: Tensor, value: Tensor) -> CacheView:
        before = self._end.clone()
        index = before + torch.arange(key.shape[2], device=key.device)
        self.key.index_copy_(2, index, key)
        self.value.index_copy_(2, index, value)
        self._end += key.shape[2]
        self._seq_len = None
        return CacheView(self.key, self.value, before)

    def fork(self) -> Self:
        other = copy.copy(self)
        other.key, other.value = self.key.clone(), self.value.clone()
        other._end = self._end.clone()
        return other

    def crop(self, length: int) -> None:
        validation.crop(length, int(self.seq_len))
        self.seq_len = length

    def reorder(self, rows: Tensor) -> None:
        validation.rows(rows, self.key.shape[0])
        self.key, self.value = self.key[rows], self.value[rows]
