"""The interface of every cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Self

import torch
from torch import Tensor

from attn import arguments


class CacheView(NamedTuple):
    """The keys and values that the queries of an update may attend to.

    Example:
        >>> cache = attn.DynamicCache()
        >>> old, new = torch.randn(1, 2, 5, 8), torch.randn(1, 2, 1, 8)
        >>> view = cache.update(old, old)
        >>> key, value, q_offset = cache.update(new, new)
        >>> key.shape, q_offset
        (torch.Size([1, 2, 6, 8]), 5)
    """

    key: Tensor  # (B, Hkv, S, D)
    value: Tensor  # (B, Hkv, S, Dv)
    q_offset: int | Tensor  # index of the first new query; see seq_len


class Cache(ABC):
    """The methods of every cache.

    Example:
        >>> x = torch.randn(1, 2, 5, 8)  # (B, Hkv, L, D)
        >>> for cache in (attn.DynamicCache(), attn.SlidingCache(2)):
        ...     view = cache.update(x, x)
        ...     print(cache.seq_len, cache.first_position)
        5 0
        5 4
    """

    # Tokens read so far: (B,) when paged or where rows have other lengths,
    # () in a graph with a StaticCache.
    seq_len: int | Tensor = 0
    # Of a cache with several texts in one row: attends within each of them.
    attend: Callable[..., Tensor] | None = None

    @property
    def first_position(self) -> int:
        """Return the position of the first key that is still stored."""
        return 0

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Return the memory of the stored keys and values, in bytes."""

    def positions(self, length: int) -> Tensor:
        """Return the positions of the next tokens, ``(L,)`` or ``(B, L)``."""
        arguments.count("length", length, 0)
        start = self.seq_len
        if not isinstance(start, Tensor):
            return torch.arange(start, start + length)
        new = torch.arange(length, device=start.device)
        return new + (start[:, None] if start.dim() else start)

    def key_positions(self, view: CacheView) -> Tensor:
        """Return the position of each key of the last update.

        They are ``(S,)``, or ``(B, S)`` where rows have forgotten different
        numbers of tokens.
        """
        return torch.arange(view.key.shape[2], device=view.key.device)

    def mask_lengths(self, length: int) -> tuple[int, ...]:
        """Return how many tokens a padding mask covers, with ``length`` new.

        It has an entry for every token read, whether its key is still
        stored or not. A ``StaticCache`` also takes one for its capacity.
        """
        read = self.seq_len
        longest = int(read.max()) if isinstance(read, Tensor) else read
        return (longest + length,)

    def valid(self) -> Tensor | None:
        """Return which keys of the last update are real, bool ``(B, S)``.

        None when all are. The others are behind every real one: a causal
        mask hides them, any other must be combined with this one.
        """
        return None

    @abstractmethod
    def update(
        self, key: Tensor, value: Tensor, lengths: Tensor | None = None
    ) -> CacheView:
        """Add the keys and values of new tokens.

        Args:
            key: ``(B, Hkv, L, D)``.
            value: ``(B, Hkv, L, Dv)``.
            lengths: number of real tokens in each row, integers ``(B,)``,
                which come first; ``L`` when None. The others, padding on the
                right, are not stored.

        Returns:
            Everything that the new queries may attend to. Once rows differ
            in length, ``q_offset`` is ``(B,)``, and shorter rows have
            zeros behind their keys (see ``valid``).

        Raises:
            ValueError, TypeError: shapes, dtype or device differ from the
                stored ones, the cache is full, or it takes no ``lengths``.
        """

    @abstractmethod
    def fork(self) -> Self:
        """Return an independent cache with the same tokens."""

    @abstractmethod
    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens.

        Raises:
            ValueError: fewer were read, or they are no longer stored.
        """

    @abstractmethod
    def reorder(self, rows: Tensor) -> None:
        """Let row ``i`` continue from the tokens of row ``rows[i]``.

        ``rows`` are integers, ``(B',)``, and may repeat (beam search).
        """
