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

    def among(self, k: Tensor, first: int, q_offset: int | Tensor) -> Places:
        """The same queries, among all the keys of a cache.

        Args:
            k: what the cache gives back, ``(B, Hkv, S, D)``.
            first: position of its first key.
            q_offset: place of the first query among these keys.
        """
        at = first + torch.arange(k.shape[2], device=k.device)  # (S,)
        if self.positions is not None and self.positions.shape[-1]:
            # Rows may count from elsewhere (padding): so do their keys. The
            # last query is a real token.
            last = torch.as_tensor(q_offset, device=at.device) + first
            last = last.reshape(-1, 1) + self.positions.shape[-1] - 1
            shift = self.positions[..., -1:] - last  # (1, 1) or (B, 1)
            at = at + (shift if shift.numel() > 1 else shift.flatten())
        return Places(self.q, k, self.positions, at, q_offset, False)

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
