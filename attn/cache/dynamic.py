"""Caches that grow: over all tokens, or over those in a window."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor

from attn.cache import validation
from attn.cache.base import Cache, CacheView


class DynamicCache(Cache):
    """Grows with the text: new tokens are appended to the old ones.

    Every update copies the cache. It keeps gradients, and needs no sizes.

    Source: transformers ``DynamicCache``.
    """

    seq_len: int = 0
    key: Tensor | None = None
    value: Tensor | None = None

    def update(self, key: Tensor, value: Tensor) -> CacheView:
        before = self.seq_len
        if self.key is None or self.value is None:
            validation.new_tokens(key, value)
            self.key, self.value = key, value
        else:
            validation.new_tokens(key, value, (self.key, self.value))
            self.key = torch.cat([self.key, key], 2)
            self.value = torch.cat([self.value, value], 2)
        self.seq_len = before + key.shape[2]
        return CacheView(self.key, self.value, before - self.first_position)

    def fork(self) -> Self:
        return copy.copy(self)  # tensors are shared, and never written to

    def crop(self, length: int) -> None:
        validation.crop(length, self.seq_len, self.first_position)
        self._keep(slice(0, length - self.first_position))
        self.seq_len = length

    def reorder(self, rows: Tensor) -> None:
        if self.key is not None and self.value is not None:
            validation.rows(rows, self.key.shape[0])
            self.key, self.value = self.key[rows], self.value[rows]

    def _keep(self, tokens: slice) -> None:
        if self.key is not None and self.value is not None:
            self.key = self.key[:, :, tokens]
            self.value = self.value[:, :, tokens]


class SlidingCache(DynamicCache):
    """Keeps the keys that a sliding window still covers.

    An update returns the new keys and those before them that the first new
    query may attend to. ``window=(window - 1, 0)``, or
    ``sliding_window(window)``, then masks for each query the keys outside
    its own window.

    Args:
        window: keys that a query sees, itself included.

    Source: transformers ``DynamicSlidingWindowLayer``; Jiang et al. 2023.
    """

    def __init__(self, window: int):
        if window < 1:
            raise ValueError(f"window must be at least 1; got {window}")
        self.window = window

    @property
    def first_position(self) -> int:
        stored = 0 if self.key is None else self.key.shape[2]
        return self.seq_len - stored

    def key_positions(self, view: CacheView) -> Tensor:
        return super().key_positions(view) + self.seq_len - view.key.shape[2]

    def update(self, key: Tensor, value: Tensor) -> CacheView:
        view = super().update(key, value)
        # Keep what the next token will see in addition to itself.
        self._keep(slice(max(view.key.shape[2] - self.window + 1, 0), None))
        return view._replace(q_offset=view.key.shape[2] - key.shape[2])
