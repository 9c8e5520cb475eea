"""Where the queries and the keys of a call stand."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Places(NamedTuple):
    """Where queries and keys stand; worked out when somebody asks."""

    q: Tensor
    k: Tensor
    positions: Tensor | None
    key_positions: Tensor | None
    q_offset: int | Tensor | None
    is_self: bool

    def of_queries(self) -> Tensor:
        """``(L,)`` or ``(B, L)``."""
        if self.positions is not None:
            return _checked("positions", self.positions, self.q)
        offset = 0 if self.q_offset is None else self.q_offset
        if isinstance(offset, Tensor):
            offset = offset[:, None]
        return offset + torch.arange(self.q.shape[2], device=self.q.device)

    def of_keys(self) -> Tensor:
        """``(S,)`` or ``(B, S)``."""
        if self.key_positions is not None:
            return _checked("key_positions", self.key_positions, self.k)
        if self.is_self:
            return self.of_queries()
        return torch.arange(self.k.shape[2], device=self.k.device)


def _checked(name: str, positions: Tensor, x: Tensor) -> Tensor:
    batch, length = x.shape[0], x.shape[2]
    if positions.shape not in ((length,), (1, length), (batch, length)):
        raise ValueError(
            f"{name} has shape {tuple(positions.shape)}: it needs (L,) or "
            f"(B, L) with B = {batch} and L = {length}"
        )
    return positions
