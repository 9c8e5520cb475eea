"""The positions of the queries and keys of one call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from attn.cache import Cache, CacheView
from attn.nn import validation


class PositionIds(NamedTuple):
    """Query and key positions, computed when they are needed."""

    q: Tensor
    k: Tensor
    positions: Tensor | None
    key_positions: Tensor | None
    q_offset: int | Tensor | None
    is_self: bool
    #: Returns a cache's positions, ``(S,)`` or ``(B, S)``; then the first
    #: query has the index ``q_offset`` among its keys.
    stored: Callable[[], Tensor] | None = None
    lengths: Tensor | None = None

    def with_cache(
        self, cache: Cache, view: CacheView, lengths: Tensor | None = None
    ) -> PositionIds:
        """Return the positions of the same queries and of a cache's keys."""
        stored = partial(cache.key_positions, view)
        cached = (None, view.q_offset, False, stored, lengths)
        return PositionIds(self.q, view.key, self.positions, *cached)

    def of_queries(self) -> Tensor:
        """Return ``(L,)`` or ``(B, L)``."""
        if self.positions is not None:
            return validation.positions("positions", self.positions, self.q)
        offset = 0 if self.q_offset is None else self.q_offset
        if isinstance(offset, Tensor):
            offset = offset[:, None]
        return offset + torch.arange(self.q.shape[2], device=self.q.device)

    def of_keys(self) -> Tensor:
        """Return ``(S,)`` or ``(B, S)``."""
        given = self.key_positions
        if self.stored is not None:
            given = self._as_queries_count(self.stored())
        if given is not None:
            return validation.positions("key_positions", given, self.k)
        if self.is_self:
            return self.of_queries()
        return torch.arange(self.k.shape[2], device=self.k.device)

    def _as_queries_count(self, ids: Tensor) -> Tensor:
        """Return a cache's positions, counted as the queries are.

        Rows with padding count from elsewhere. The last query, of its row's
        length if given, is a real token.
        """
        own, start = self.positions, self.q_offset
        if own is None or own.shape[-1] == 0:
            return ids
        assert start is not None
        count = own.shape[-1] if self.lengths is None else self.lengths
        shift = _at(own, count - 1) - _at(ids, start + count - 1)
        return ids + (shift if shift.numel() > 1 else shift.flatten())


def _at(positions: Tensor, index: int | Tensor) -> Tensor:
    """Return the position at an index, of all rows or of each, ``(B, 1)``."""
    if isinstance(index, int):
        return positions.narrow(-1, index, 1).reshape(-1, 1)
    index = index.reshape(-1, 1).clamp(min=0)  # -1 in a row without a token
    return positions.expand(index.shape[0], -1).gather(1, index)
