"""Caches that grow: over all tokens, or over those that a window sees."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from attn.cache.base import (
    Cache,
    Seen,
    check_crop,
    check_fit,
    check_pair,
    check_rows,
)

__all__ = ["DynamicCache", "SlidingCache"]


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
        check_crop(length, int(self.seq_len), self.first_position)
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
