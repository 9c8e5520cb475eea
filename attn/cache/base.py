"""The interface of every cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Self

import torch
from torch import Tensor

from attn.cache.validation import size


class CacheView(NamedTuple):
    """The keys and values that the queries of an update may attend to."""

    key: Tensor  # (B, Hkv, S, D)
    value: Tensor  # (B, Hkv, S, Dv)
    q_offset: int | Tensor  # index of the first new query; see seq_len


class Cache(ABC):
    """The methods of every cache."""

    # Tokens read so far; (B,) when paged, () in a graph with a StaticCache.
    seq_len: int | Tensor = 0

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
        size("length", length, 0)
        start = self.seq_len
        if isinstance(start, int):
            return torch.arange(start, start + length)
        new = torch.arange(length, device=start.device)
        return new + (start[:, None] if start.dim() else start)

    def key_positions(self, view: CacheView) -> Tensor:
        """Return the position of each key of the last update, ``(S,)``."""
        return torch.arange(view.key.shape[2], device=view.key.device)

    def mask_lengths(self, length: int) -> tuple[int, ...]:
        """Return how many tokens a padding mask covers, with ``length`` new.

        It has an entry for every token read, whether its key is still
        stored or not. A ``StaticCache`` also takes one for its capacity.
        """
        read = self.seq_len
        longest = read if isinstance(read, int) else int(read.max())
        return (longest + length,)

    def valid(self) -> Tensor | None:
        """Return which keys of the last update are real, bool ``(B, S)``.

        None when all are. The others are behind every real one: a causal
        mask hides them, any other must be combined with this one.
        """
        return None

    @abstractmethod
    def update(self, key: Tensor, value: Tensor) -> CacheView:
        """Add the keys and values of new tokens.

        Args:
            key: ``(B, Hkv, L, D)``.
            value: ``(B, Hkv, L, Dv)``.

        Returns:
            Everything that the new queries may attend to.

        Raises:
            ValueError, TypeError: shapes, dtype or device differ from the
                stored ones, or the cache is full.
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
