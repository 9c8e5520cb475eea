"""Rows of different lengths in one tensor: real tokens, then zeros."""

from __future__ import annotations

import torch
from torch import Tensor

from attn import tracing


def real(lengths: Tensor, length: int) -> Tensor:
    """Return which of ``length`` tokens are real, bool ``(B, length)``."""
    return torch.arange(length, device=lengths.device) < lengths[:, None]


def take(
    x: Tensor, start: Tensor, lengths: Tensor, most: int | None = None
) -> Tensor:
    """Return ``lengths`` tokens of each row from ``start``, then zeros."""
    if most is None:
        most = longest_of(lengths)
    index = start[:, None] + torch.arange(most, device=x.device)
    valid = real(lengths, most)  # (B, most)
    return _select(x, index.masked_fill(~valid, 0), valid)


def longest_of(lengths: Tensor) -> int:
    """Return the greatest length."""
    reason = "which give the size of the result"
    tracing.require_values(reason, lengths=lengths)
    return int(lengths.max()) if len(lengths) else 0


def append(
    old: Tensor | None, new: Tensor, before: Tensor, count: Tensor
) -> Tensor:
    """Return the first tokens of two tensors, end to end in each row."""
    old = new[:, :, :0] if old is None else old
    total = before + count
    longest = longest_of(total)
    index = torch.arange(longest, device=new.device)
    is_new = index >= before[:, None]  # (B, longest)
    index = torch.where(is_new, index - before[:, None] + old.shape[2], index)
    valid = real(total, longest)
    both = torch.cat([old, new], 2)
    return _select(both, index.masked_fill(~valid, 0), valid)


def write(memory: Tensor, new: Tensor, before: Tensor, count: Tensor) -> None:
    """Write the first tokens of ``new`` behind those of each row, in place.

    Nothing depends on a value: a graph may contain it. Tokens beyond the
    memory are dropped.
    """
    slots = torch.arange(memory.shape[2], device=memory.device)
    index = slots - before[:, None]  # (B, capacity)
    is_new = (index >= 0) & (index < count[:, None])
    last = max(new.shape[2] - 1, 0)
    found = _select(new, index.clamp(0, last), is_new)
    memory.copy_(torch.where(is_new[:, None, :, None], found, memory))


def _select(x: Tensor, index: Tensor, valid: Tensor) -> Tensor:
    """Return ``x[b, :, index[b, s]]`` where valid, zeros elsewhere."""
    at = index[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3])
    return x.gather(2, at).masked_fill(~valid[:, None, :, None], 0.0)
