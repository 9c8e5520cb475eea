"""Keys and values of everything read so far, for one layer.

``update`` adds what is new and gives back what the new queries may look at.
``q_offset`` is the place of the first new query among these keys, as every
attention function here takes it::

    key, value, q_offset = cache.update(key, value)
    out = attn.grouped_attention(
        query, key, value, is_causal=True, q_offset=q_offset
    )

Keys are kept as they come: turned by their positions, if the model has RoPE.
``positions`` gives those of the next tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Self

import torch
from torch import Tensor

__all__ = ["Cache", "DynamicCache", "Seen", "SlidingCache", "StaticCache"]


class Seen(NamedTuple):
    """What the queries of this update may look at."""

    key: Tensor  # (B, Hkv, S, D)
    value: Tensor  # (B, Hkv, S, Dv)
    q_offset: int | Tensor  # place of the first new query; (B,) when paged


class Cache(ABC):
    """What all caches can do.

    ``seq_len`` is how many tokens were read, ``first_position`` the position
    of the first key that is still there.
    """

    seq_len: int | Tensor = 0

    @property
    def first_position(self) -> int:
        """The position of the first key of the next ``Seen``."""
        return 0

    def positions(self, length: int, padding: Tensor | None = None) -> Tensor:
        """Positions of the next tokens, for RoPE or a table.

        Args:
            length: how many tokens will come, ``L``.
            padding: tokens of padding in front of each row, integers
                ``(B,)``: the first real token is then at 0, and padding at
                negative positions, which nobody sees.

        Returns:
            ``(L,)``, or ``(B, L)`` when rows differ.
        """
        if length < 0:
            raise ValueError(f"length is {length}: it needs 0 or more")
        start = torch.as_tensor(self.seq_len)
        new = torch.arange(length, device=start.device)
        new = new + (start[:, None] if start.dim() else start)  # (B, L)
        return new if padding is None else new - padding[:, None]

    @abstractmethod
    def update(self, key: Tensor, value: Tensor) -> Seen:
        """Add the keys and values of new tokens.

        Args:
            key: ``(B, Hkv, L, D)``.
            value: ``(B, Hkv, L, Dv)``.

        Returns:
            Everything that the new queries may look at.

        Raises:
            ValueError: shapes, dtype or device differ from what is there,
                or there is no room.
        """

    @abstractmethod
    def fork(self) -> Self:
        """A cache that goes on from here; neither sees what the other adds."""

    @abstractmethod
    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens.

        Raises:
            ValueError: fewer were read, or they are no longer there.
        """

    @abstractmethod
    def reorder(self, rows: Tensor) -> None:
        """Let row ``i`` go on from what row ``rows[i]`` has read.

        Args:
            rows: integers ``(B',)``; rows may repeat (beam search).
        """


class DynamicCache(Cache):
    """Grows with the text: new tokens are put behind the old ones.

    Every update copies the cache. It keeps gradients, and needs no sizes.

    Source: transformers ``DynamicCache``.
    """

    def __init__(self) -> None:
        self.key: Tensor | None = None
        self.value: Tensor | None = None

    def update(self, key: Tensor, value: Tensor) -> Seen:
        """See ``Cache.update``."""
        check_pair(key, value)
        before = int(self.seq_len)
        if self.key is None or self.value is None:
            self.key, self.value = key, value
        else:
            check_fit("key", key, self.key)
            check_fit("value", value, self.value)
            self.key = torch.cat([self.key, key], 2)
            self.value = torch.cat([self.value, value], 2)
        self.seq_len = before + key.shape[2]
        return Seen(self.key, self.value, before - self.first_position)

    def fork(self) -> Self:
        """See ``Cache.fork``: tensors are shared, and never written to."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def crop(self, length: int) -> None:
        """See ``Cache.crop``."""
        _check_crop(length, int(self.seq_len), self.first_position)
        self._keep(slice(0, length - self.first_position))
        self.seq_len = length

    def reorder(self, rows: Tensor) -> None:
        """See ``Cache.reorder``."""
        if self.key is not None and self.value is not None:
            check_rows(rows, self.key.shape[0])
            self.key, self.value = self.key[rows], self.value[rows]

    def _keep(self, tokens: slice) -> None:
        if self.key is not None and self.value is not None:
            self.key = self.key[:, :, tokens]
            self.value = self.value[:, :, tokens]


class SlidingCache(DynamicCache):
    """Keeps what a sliding window can still see, and forgets the rest.

    An update gives back the keys before the new ones that its first query
    sees, and the new ones; ``window=(window - 1, 0)``, or
    ``sliding_window(window)``, hides from each query what is too old for it.

    Args:
        window: keys that a query sees, itself included.

    Source: transformers ``DynamicSlidingWindowLayer``; Jiang et al. 2023.
    """

    def __init__(self, window: int):
        super().__init__()
        if window < 1:
            raise ValueError(f"window is {window}: it needs at least 1")
        self.window = window

    @property
    def first_position(self) -> int:
        """The position of the oldest key that is still there."""
        return int(self.seq_len) - (
            0 if self.key is None else self.key.shape[2]
        )

    def update(self, key: Tensor, value: Tensor) -> Seen:
        """See ``Cache.update``."""
        seen = super().update(key, value)
        # What the next token will see besides itself.
        self._keep(slice(max(seen.key.shape[2] - self.window + 1, 0), None))
        return Seen(seen.key, seen.value, seen.key.shape[2] - key.shape[2])


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
        _check_crop(length, int(self.seq_len))
        self.seq_len = length

    def reorder(self, rows: Tensor) -> None:
        """See ``Cache.reorder``."""
        check_rows(rows, self.key.shape[0])
        self.key, self.value = self.key[rows], self.value[rows]


def check_pair(key: Tensor, value: Tensor) -> None:
    for name, x in (("key", key), ("value", value)):
        if x.dim() != 4:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}: it needs (B, Hkv, L, D)"
            )
    if key.shape[:3] != value.shape[:3]:
        raise ValueError(
            f"value has shape {tuple(value.shape)} and key "
            f"{tuple(key.shape)}: all but the last axis need to be the same"
        )


def check_fit(name: str, new: Tensor, there: Tensor) -> None:
    """New tokens, against those that are there."""
    (B, H, _, D), (rows, heads, _, width) = new.shape, there.shape
    if (rows, heads, width) != (B, H, D):
        raise ValueError(
            f"{name} has shape {tuple(new.shape)}: the cache needs "
            f"({rows}, {heads}, L, {width})"
        )
    if new.dtype != there.dtype or new.device != there.device:
        raise TypeError(
            f"{name} is {new.dtype} on {new.device}: the cache needs "
            f"{there.dtype} on {there.device}"
        )


def check_no_grad(*tensors: Tensor) -> None:
    """Refuse what would lose its gradient in memory that is overwritten."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        raise ValueError(
            "key or value requires a gradient: a cache that is written in "
            "place needs torch.no_grad() (a DynamicCache keeps gradients)"
        )


def _check_crop(length: int, seq_len: int, first: int = 0) -> None:
    if not 0 <= length <= seq_len:
        raise ValueError(
            f"length is {length}: {seq_len} tokens were read, it needs 0 to "
            f"{seq_len}"
        )
    if first > 0 and length < seq_len:
        raise ValueError(
            f"length is {length}: the cache has forgotten the tokens before "
            f"position {first}, which the next token would need to see"
        )


def check_rows(rows: Tensor, batch: int) -> None:
    if rows.dim() != 1 or rows.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            f"rows is {rows.dtype} of shape {tuple(rows.shape)}: it needs "
            "integers (B,)"
        )
    if rows.numel() and not (rows.min() >= 0 and rows.max() < batch):
        raise ValueError(
            f"rows has {int(rows.min())} to {int(rows.max())}: the cache has "
            f"rows 0 to {batch - 1}"
        )
