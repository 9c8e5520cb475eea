"""A cache of fixed size, for graphs that are compiled once."""

from __future__ import annotations

import copy
from functools import partial
from typing import Self

import torch
from torch import Tensor

from attn import arguments
from attn.cache import ragged, validation
from attn.cache.base import Cache, CacheView

LINE = 16  # float32 elements in a line of the CPU's cache


class StaticCache(Cache):
    """Memory for a fixed number of tokens, allocated once, written in place.

    Called from Python, an update returns the keys that were written. Within
    ``torch.compile`` it returns the whole memory, and ``seq_len`` and
    ``q_offset`` are tensors: nothing in the graph depends on the number of
    tokens, and one graph serves every step of decoding (a second one, with
    another ``L``, the prefill). Memory that was not written is zero, and
    behind every real key: ``is_causal`` with the ``q_offset`` hides it, and
    any other mask must be combined with ``valid()``. ``seq_len`` and
    ``q_offset`` are ``(B,)`` after an update with ``lengths``.

    Args:
        batch: ``B``.
        num_kv_heads: ``Hkv``.
        capacity: tokens that fit. A graph does not check it: on a CPU it
            raises an IndexError, on a GPU the device stops.
        head_dim: ``D``.
        value_dim: ``Dv``; ``D`` when None.
        dtype, device: of keys and values.
        transposed_keys: store keys as ``(B, Hkv, D, S)``, and return a view
            of the usual shape. ``attn.attention`` decodes from it without a
            copy, on a CPU in float32 or float64: with 32 heads on 8 and
            4,096 keys, 2.6 times as fast as PyTorch on an Intel Xeon, where
            the usual layout is 1.85 times as fast. An AMD EPYC gains where
            heads share no keys (1.3 times), or eight share them (2.3 against
            2.1). A new token costs ``D`` places a head to write to: 86 us
            against 55 with ``Hkv * D = 1024``, and 4,000 tokens 8.5 ms
            against 2.9. Many queries at once read a copy.

    Example:
        >>> cache = attn.StaticCache(1, num_kv_heads=2, capacity=4, head_dim=8)
        >>> x = torch.randn(1, 2, 3, 8)
        >>> key, value, q_offset = cache.update(x, x)
        >>> key.shape, cache.seq_len, cache.capacity
        (torch.Size([1, 2, 3, 8]), 3, 4)
        >>> cache.update(x, x)
        Traceback (most recent call last):
            ...
        ValueError: key must have at most 1 tokens, as 3 of 4 are stored; got 3

    Source: transformers ``StaticCache``.
    """

    @arguments.named()
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
        transposed_keys: bool = False,
    ):
        sizes = {
            "batch": batch,
            "num_kv_heads": num_kv_heads,
            "capacity": capacity,
            "head_dim": head_dim,
            "value_dim": head_dim if value_dim is None else value_dim,
        }
        arguments.counts(0, **sizes)
        *shape, D, Dv = sizes.values()
        # Zeros: a weight of 0 does not hide a NaN.
        zeros = partial(torch.zeros, dtype=dtype, device=device)
        if not transposed_keys:
            self.key = zeros(*shape, D)
        else:
            # An odd number of cache lines from one feature to the next: with
            # a power of two, they would share a few places in the CPU's.
            stride = LINE * (-(-capacity // LINE) | 1)
            key = zeros(batch, num_kv_heads, head_dim, stride)
            self.key = key[..., :capacity].mT
        self.value = zeros(*shape, Dv)
        self._end = torch.zeros((), dtype=torch.long, device=device)
        self._seq_len: int | None = 0  # None after a graph has moved _end

    @property
    def seq_len(self) -> int | Tensor:
        """Return the tokens read so far, as the class says."""
        if torch.compiler.is_compiling():
            return self._end
        if self._end.dim():
            return self._end.clone()  # the next update writes to it
        if self._seq_len is None:
            self._seq_len = int(self._end)
        return self._seq_len

    @seq_len.setter
    def seq_len(self, end: int | Tensor) -> None:
        self._seq_len = int(end)
        if self._end.dim():  # no row differs any longer
            self._end = self._end.new_zeros(())
        self._end.fill_(self._seq_len)

    @property
    def capacity(self) -> int:
        """Return the number of tokens that fit."""
        return self.key.shape[2]

    @property
    def nbytes(self) -> int:
        memory = (self.key, self.value)
        return sum(x.untyped_storage().nbytes() for x in memory)

    def mask_lengths(self, length: int) -> tuple[int, ...]:
        if torch.compiler.is_compiling():
            return (self.capacity,)
        return (*super().mask_lengths(length), self.capacity)

    def valid(self) -> Tensor | None:
        if torch.compiler.is_compiling():
            return ragged.real(self._end.reshape(-1), self.capacity)
        if self._end.dim():
            return ragged.real(self._end, int(self._end.max()))
        return None

    def update(
        self, key: Tensor, value: Tensor, lengths: Tensor | None = None
    ) -> CacheView:
        validation.new_tokens(key, value, (self.key, self.value))
        validation.no_grad(key, value)
        if lengths is not None:
            validation.lengths(lengths, key.shape[0], key.shape[2])
        if lengths is not None or self._end.dim():
            return self._update_rows(key, value, lengths)
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

    def _update_rows(
        self, key: Tensor, value: Tensor, lengths: Tensor | None
    ) -> CacheView:
        """Update rows that differ in length."""
        in_graph = torch.compiler.is_compiling()
        before = self._end.expand(key.shape[0]).clone()  # (B,)
        after = before + (key.shape[2] if lengths is None else lengths)
        longest = self.capacity if in_graph else ragged.longest_of(after)
        if longest > self.capacity:
            raise ValueError(
                f"key must fit in the capacity, {self.capacity} tokens in "
                f"each row; got {longest}"
            )
        for memory, new in ((self.key, key), (self.value, value)):
            if lengths is not None:
                ragged.write(memory, new, before, lengths)
            else:
                index = before[:, None] + torch.arange(
                    key.shape[2], device=key.device
                )  # (B, L)
                memory.scatter_(2, index[:, None, :, None].expand_as(new), new)
        if self._end.dim():
            self._end.copy_(after)
        else:
            self._end = after
        return CacheView(
            self.key[:, :, :longest], self.value[:, :, :longest], before
        )

    def fork(self) -> Self:
        return copy.deepcopy(self)

    def crop(self, length: int) -> None:
        validation.crop(length, int(torch.as_tensor(self.seq_len).min()))
        self.seq_len = length

    def reorder(self, rows: Tensor) -> None:
        validation.rows(rows, self.key.shape[0])
        self.key, self.value = (
            torch.index_select(
                x,
                0,
                rows,
                out=x.new_empty_strided((len(rows), *x.shape[1:]), x.stride()),
            )
            for x in (self.key, self.value)
        )
        if self._end.dim():
            self._end = self._end[rows]
