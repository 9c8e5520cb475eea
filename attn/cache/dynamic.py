"""Caches that grow: over all tokens, or over those in a window."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor

from attn import arguments
from attn.cache import ragged, validation
from attn.cache.base import Cache, CacheView
from attn.masks import Mask, causal, prefix, sliding_window


class DynamicCache(Cache):
    """Grows with the text: new tokens are appended to the old ones.

    Every update copies the cache. It keeps gradients, and needs no sizes.
    ``seq_len`` is an int, or ``(B,)`` after an update with ``lengths``.

    Example:
        >>> x = torch.randn(1, 2, 6, 8)  # (B, H, L, D)
        >>> whole = attn.attention(x, x, x, is_causal=True)
        >>> cache = attn.DynamicCache()
        >>> for new in x.split(1, dim=-2):  # one token at a time
        ...     key, value, q_offset = cache.update(new, new)
        ...     last = attn.attention(new, key, value, q_offset=q_offset)
        >>> torch.allclose(last, whole[..., -1:, :], atol=1e-5)
        True

    Source: transformers ``DynamicCache``.
    """

    key: Tensor | None = None
    value: Tensor | None = None
    # Keys of the last update in each row, (B,), if they ever differed.
    _real: Tensor | None = None

    @property
    def nbytes(self) -> int:
        stored = (self.key, self.value)
        return sum(0 if x is None else x.nbytes for x in stored)

    def update(
        self, key: Tensor, value: Tensor, lengths: Tensor | None = None
    ) -> CacheView:
        validation.new_tokens(key, value, (self.key, self.value))
        if lengths is not None or isinstance(self.seq_len, Tensor):
            return self._update_rows(key, value, lengths)
        if self.key is None or self.value is None:
            self.key, self.value = key, value
        else:
            self.key = torch.cat([self.key, key], 2)
            self.value = torch.cat([self.value, value], 2)
        self.seq_len += key.shape[2]
        old = self.key.shape[2] - key.shape[2]
        return CacheView(self.key, self.value, old)

    def _update_rows(
        self, key: Tensor, value: Tensor, lengths: Tensor | None
    ) -> CacheView:
        """Update rows that differ in length."""
        if lengths is not None:
            validation.lengths(lengths, key.shape[0], key.shape[2])
        count = _by_row(key.shape[2] if lengths is None else lengths, key)
        before = _by_row(self._stored, key)
        self.key = ragged.append(self.key, key, before, count)
        self.value = ragged.append(self.value, value, before, count)
        self.seq_len, self._real = self.seq_len + count, before + count
        return CacheView(self.key, self.value, before)

    @property
    def _stored(self) -> int | Tensor:
        """Return the number of stored tokens, of all rows or of each."""
        return self.seq_len

    def valid(self) -> Tensor | None:
        if self._real is None:
            return None
        return ragged.real(self._real, int(self._real.max()))

    def fork(self) -> Self:
        return copy.copy(self)  # tensors are shared, and never written to

    def crop(self, length: int) -> None:
        validation.crop(length, int(torch.as_tensor(self.seq_len).min()))
        if self.key is not None and self.value is not None:
            self.key = self.key[:, :, :length]
            self.value = self.value[:, :, :length]
        self.seq_len, self._real = length, None

    def reorder(self, rows: Tensor) -> None:
        if self.key is not None and self.value is not None:
            validation.rows(rows, self.key.shape[0])
            self.key, self.value = self.key[rows], self.value[rows]
        if isinstance(self.seq_len, Tensor) and self._real is not None:
            self.seq_len, self._real = self.seq_len[rows], self._real[rows]


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

    Example:
        >>> cache = attn.SlidingCache(window=3, num_sink_tokens=1)
        >>> text, token = torch.randn(1, 2, 10, 8), torch.randn(1, 2, 1, 8)
        >>> view = cache.update(text, text)
        >>> view = cache.update(token, token)
        >>> cache.key_positions(view)  # the sink, and the window
        tensor([ 0,  8,  9, 10])

    Source: transformers ``DynamicSlidingWindowLayer``; Jiang et al. 2023;
    Xiao et al. 2023, "Efficient Streaming Language Models with Attention
    Sinks" (4 sinks).
    """

    def __init__(self, window: int, num_sink_tokens: int = 0):
        arguments.count("window", window)
        arguments.count("num_sink_tokens", num_sink_tokens, 0)
        self.window, self.num_sink_tokens = window, num_sink_tokens

    @property
    def mask(self) -> Mask:
        """Return what a token sees, over a whole text or over an update."""
        near = sliding_window(self.window)
        sinks = self.num_sink_tokens
        return near | (causal() & prefix(sinks)) if sinks else near

    @property
    def first_position(self) -> int:
        forgotten = torch.as_tensor(self._forgotten)
        return 0 if self.num_sink_tokens else int(forgotten.min())

    @property
    def _stored(self) -> int | Tensor:
        if isinstance(self.seq_len, Tensor):
            return self.seq_len.clamp(max=self.window - 1)
        return 0 if self.key is None else self.key.shape[2]

    @property
    def _forgotten(self) -> int | Tensor:
        """Return the number of tokens between the sinks and the window."""
        return self.seq_len - self._stored

    def key_positions(self, view: CacheView) -> Tensor:
        index = super().key_positions(view)
        if self._real is not None:
            return index + (self.seq_len - self._real)[:, None]
        gap = self.seq_len - len(index)
        return index + gap * (index >= self.num_sink_tokens)

    def update(
        self, key: Tensor, value: Tensor, lengths: Tensor | None = None
    ) -> CacheView:
        if lengths is not None and self.num_sink_tokens:
            raise ValueError(
                "lengths must be None with num_sink_tokens, which are kept "
                f"for all rows alike; got {self.num_sink_tokens} of them"
            )
        view = super().update(key, value, lengths)
        # Keep what the next token will see in addition to itself.
        if self._real is not None:
            kept = self._real.clamp(max=self.window - 1)
            self.key, self.value = (
                ragged.take(x, self._real - kept, kept)
                for x in (view.key, view.value)
            )
            return view
        sinks, length = self.num_sink_tokens, view.key.shape[2]
        start = length - self.window + 1
        if start > sinks:
            self.key, self.value = (
                torch.cat([x[:, :, :sinks], x[:, :, start:]], 2)
                if sinks
                else x[:, :, start:]
                for x in (view.key, view.value)
            )
        return view

    def crop(self, length: int) -> None:
        gap = int(torch.as_tensor(self._forgotten).max())
        first = gap + self.num_sink_tokens if gap else 0
        longest = int(torch.as_tensor(self.seq_len).max())
        validation.crop(length, longest, first)
        super().crop(length)


def _by_row(count: int | Tensor, key: Tensor) -> Tensor:
    """Return a count for each row of the keys, ``(B,)``."""
    return torch.as_tensor(count, device=key.device).expand(key.shape[0])
