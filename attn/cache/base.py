"""The interface of every cache, and the checks that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Self

import torch
from torch import Tensor

__all__ = ["Cache", "Seen"]


class Seen(NamedTuple):
    """What the queries of this update may look at."""

    key: Tensor  # (B, Hkv, S, D)
    value: Tensor  # (B, Hkv, S, Dv)
    q_offset: int | Tensor  # place of the first new query; (B,) when paged


class Cache(ABC):
    """What all caches can do.

    ``seq_len`` is how many tokens were read, ``first_position`` the position
    of the first key that is still there.
    """

    seq_len: int | Tensor = 0

    @property
    def first_position(self) -> int:
        """The position of the first key of the next ``Seen``."""
        return 0

    def positions(self, length: int, padding: Tensor | None = None) -> Tensor:
        """Positions of the next tokens, for RoPE or a table.

        Args:
            length: how many tokens will come, ``L``.
            padding: tokens of padding in front of each row, integers
                ``(B,)``: the first real token is then at 0, and padding at
                negative positions, which nobody sees.

        Returns:
            ``(L,)``, or ``(B, L)`` when rows differ.
        """
        if length < 0:
            raise ValueError(f"length is {length}: it needs 0 or more")
        start = torch.as_tensor(self.seq_len)
        new = torch.arange(length, device=start.device)
        new = new + (start[:, None] if start.dim() else start)  # (B, L)
        return new if padding is None else new - padding[:, None]

    @abstractmethod
    def update(self, key: Tensor, value: Tensor) -> Seen:
        """Add the keys and values of new tokens.

        Args:
            key: ``(B, Hkv, L, D)``.
            value: ``(B, Hkv, L, Dv)``.

        Returns:
            Everything that the new queries may look at.

        Raises:
            ValueError: shapes, dtype or device differ from what is there,
                or there is no room.
        """

    @abstractmethod
    def fork(self) -> Self:
        """A cache that goes on from here; neither sees what the other adds."""

    @abstractmethod
    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens.

        Raises:
            ValueError: fewer were read, or they are no longer there.
        """

    @abstractmethod
    def reorder(self, rows: Tensor) -> None:
        """Let row ``i`` go on from what row ``rows[i]`` has read.

        Args:
            rows: integers ``(B',)``; rows may repeat (beam search).
        """


def check_pair(key: Tensor, value: Tensor) -> None:
    for name, x in (("key", key), ("value", value)):
        if x.dim() != 4:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}: it needs (B, Hkv, L, D)"
            )
    if key.shape[:3] != value.shape[:3]:
        raise ValueError(
            f"value has shape {tuple(value.shape)} and key "
            f"{tuple(key.shape)}: all but the last axis need to be the same"
        )


def check_fit(name: str, new: Tensor, there: Tensor) -> None:
    """New tokens, against those that are there."""
    (B, H, _, D), (rows, heads, _, width) = new.shape, there.shape
    if (rows, heads, width) != (B, H, D):
        raise ValueError(
            f"{name} has shape {tuple(new.shape)}: the cache needs "
            f"({rows}, {heads}, L, {width})"
        )
    if new.dtype != there.dtype or new.device != there.device:
        raise TypeError(
            f"{name} is {new.dtype} on {new.device}: the cache needs "
            f"{there.dtype} on {there.device}"
        )


def check_no_grad(*tensors: Tensor) -> None:
    """Refuse what would lose its gradient in memory that is overwritten."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        raise ValueError(
            "key or value requires a gradient: a cache that is written in "
            "place needs torch.no_grad() (a DynamicCache keeps gradients)"
        )


def check_crop(length: int, seq_len: int, first: int = 0) -> None:
    if not 0 <= length <= seq_len:
        raise ValueError(
            f"length is {length}: {seq_len} tokens were read, it needs 0 to "
            f"{seq_len}"
        )
    if first > 0 and length < seq_len:
        raise ValueError(
            f"length is {length}: the cache has forgotten the tokens before "
            f"position {first}, which the next token would need to see"
        )


def check_rows(rows: Tensor, batch: int) -> None:
    if rows.dim() != 1 or rows.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            f"rows is {rows.dtype} of shape {tuple(rows.shape)}: it needs "
            "integers (B,)"
        )
    if rows.numel() and not (rows.min() >= 0 and rows.max() < batch):
        raise ValueError(
            f"rows has {int(rows.min())} to {int(rows.max())}: the cache has "
            f"rows 0 to {batch - 1}"
        )
