"""The positions of the queries and keys of one call."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attn.nn import validation


class PositionIds(NamedTuple):
    """Query and key positions, computed when they are needed."""

    q: Tensor
    k: Tensor
    positions: Tensor | None
    key_positions: Tensor | None
    q_offset: int | Tensor | None
    is_self: bool

    def with_cache(
        self, k: Tensor, key_positions: Tensor, q_offset: int | Tensor
    ) -> PositionIds:
        """Return the positions of the same queries and of a cache's keys.

        Its keys are at ``key_positions``, ``(S,)``, and the first query has
        the index ``q_offset`` among them.
        """
        ids = key_positions
        if self.positions is not None and self.positions.shape[-1]:
            # Rows with padding count from elsewhere, and so do their keys.
            # The last query is a real token.
            index = q_offset + self.positions.shape[-1] - 1
            if isinstance(index, Tensor):
                index = index.reshape(-1)  # Python would read a 0-d index
            last = ids[index].reshape(-1, 1)
            shift = self.positions[..., -1:] - last  # (1, 1) or (B, 1)
            ids = ids + (shift if shift.numel() > 1 else shift.flatten())
        return PositionIds(self.q, k, self.positions, ids, q_offset, False)

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
        if given is not None:
            return validation.positions("key_positions", given, self.k)
        if self.is_self:
            return self.of_queries()
        return torch.arange(self.k.shape[2], device=self.k.device)
