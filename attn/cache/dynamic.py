"""Caches that grow: over all tokens, or over those in a window."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor

from attn.cache import validation
from attn.cache.base import Cache, CacheView
from attn.masks import Mask, causal, prefix, sliding_window


class DynamicCache(Cache):
    """Grows with the text: new tokens are appended to the old ones.

    Every update copies the cache. It keeps gradients, and needs no sizes.

    Source: transformers ``DynamicCache``.
    """

    seq_len: int = 0
    key: Tensor | None = None
    value: Tensor | None = None

    @property
    def nbytes(self) -> int:
        stored = (self.key, self.value)
        return sum(0 if x is None else x.nbytes for x in stored)

    def update(self, key: Tensor, value: Tensor) -> CacheView:
        if self.key is None or self.value is None:
            validation.new_tokens(key, value)
            self.key, self.value = key, value
        else:
            validation.new_tokens(key, value, (self.key, self.value))
            self.key = torch.cat([self.key, key], 2)
            self.value = torch.cat([self.value, value], 2)
        self.seq_len += key.shape[2]
        old = self.key.shape[2] - key.shape[2]
        return CacheView(self.key, self.value, old)

    def fork(self) -> Self:
        return copy.copy(self)  # tensors are shared, and never written to

    def crop(self, length: int) -> None:
        validation.crop(length, self.seq_len)
        if self.key is not None and self.value is not None:
            self.key, self.value = (
                self.key[:, :, :length],
                self.value[:, :, :length],
            )
        self.seq_len = length

    def reorder(self, rows: Tensor) -> None:
        if self.key is not None and self.value is not None:
            validation.rows(rows, self.key.shape[0])
            self.key, self.value = self.key[rows], self.value[rows]


class SlidingCache(DynamicCache):
    """Keeps the keys that a sliding window still covers, and the first ones.

    An update returns the new keys and those before them that the first new
    query may attend to. ``mask`` then hides from each query the keys outside
    its own window. In any chunks, the result is that of the same mask on the
    whole text::

        key, value, q_offset = cache.update(key, value)
        out = attn.attention(query, key, value, cache.mask, q_offset=q_offset)

    Models put much of their attention on the first tokens, whatever these
    say, and fail when a window drops them. A few kept ones, the attention
    sinks, prevent that.

    Keys rotated by RoPE keep their positions in the text, and the distance
    to the sinks grows. StreamingLLM counts positions within the cache, which
    never exceed those of training: store keys that are not rotated, and
    after each update rotate all of them by ``0, 1, 2, …``, the queries by
    ``q_offset, q_offset + 1, …``.

    Args:
        window: keys that a query sees, itself included.
        num_sink_tokens: first tokens that every later one sees, too; with
            padding on the left, they would be padding.

    Source: transformers ``DynamicSlidingWindowLayer``; Jiang et al. 2023;
    Xiao et al. 2023, "Efficient Streaming Language Models with Attention
    Sinks" (4 sinks).
    """

    def __init__(self, window: int, num_sink_tokens: int = 0):
        validation.size("window", window, 1)
        validation.size("num_sink_tokens", num_sink_tokens, 0)
        self.window, self.num_sink_tokens = window, num_sink_tokens

    @property
    def mask(self) -> Mask:
        """Return what a token sees, over a whole text or over an update."""
        near = sliding_window(self.window)
        sinks = self.num_sink_tokens
        return near | (causal() & prefix(sinks)) if sinks else near

    @property
    def first_position(self) -> int:
        return 0 if self.num_sink_tokens else self._forgotten

    @property
    def _forgotten(self) -> int:
        """Return the number of tokens between the sinks and the window."""
        return self.seq_len - (0 if self.key is None else self.key.shape[2])

    def key_positions(self, view: CacheView) -> Tensor:
        index = super().key_positions(view)
        gap = self.seq_len - len(index)
        return index + gap * (index >= self.num_sink_tokens)

    def update(self, key: Tensor, value: Tensor) -> CacheView:
        view = super().update(key, value)
        # Keep what the next token will see in addition to itself.
        sinks, length = self.num_sink_tokens, view.key.shape[2]
        start = length - self.window + 1
        if start > sinks:
            recent = [x[:, :, start:] for x in (view.key, view.value)]
            if sinks:
                first = [x[:, :, :sinks] for x in (view.key, view.value)]
                recent = [
                    torch.cat(x, 2) for x in zip(first, recent, strict=True)
                ]
            self.key, self.value = recent
        return view

    def crop(self, length: int) -> None:
        gap = self._forgotten
        first = gap + self.num_sink_tokens if gap else 0
        validation.crop(length, self.seq_len, first)
        super().crop(length)
