"""Split the tokens of a sequence over ranks, and put them together."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from attn import arguments
from attn.distributed.exchange import Place, agree, all_gather, find_place

LAYOUTS = ("contiguous", "zigzag")


def shard_positions(
    seq_len: int, rank: int, world_size: int, *, layout: str = "contiguous"
) -> Tensor:
    """Return the absolute positions of the tokens that a rank holds.

    ``"contiguous"`` gives rank ``r`` the ``r``-th of ``W`` parts. With causal
    attention, the last rank then has the most to do. ``"zigzag"`` cuts the
    sequence into ``2 * W`` parts and gives rank ``r`` the parts ``r`` and
    ``2 * W - 1 - r``, an early and a late one: equal work for all.

    Args:
        seq_len: tokens of the whole sequence.
        rank, world_size: of the process group.
        layout: ``"contiguous"`` or ``"zigzag"``.

    Returns:
        ``(seq_len / W,)``, int64, ascending.

    Raises:
        ValueError: the parts would differ in length, or an argument is out
            of its range.

    Example:
        >>> for rank in (0, 1):
        ...     attn.distributed.shard_positions(8, rank, 2, layout="zigzag")
        tensor([0, 1, 6, 7])
        tensor([2, 3, 4, 5])

    Source: the load balancing of Llama 3 (2024), section 3.3.2, "CP".
    """
    arguments.integer("seq_len", seq_len)
    check_rank(rank, world_size)
    arguments.choice("layout", layout, LAYOUTS)
    parts = world_size if layout == "contiguous" else 2 * world_size
    if seq_len < 0 or seq_len % parts:
        up = max(seq_len + -seq_len % parts, parts)
        raise ValueError(
            f"seq_len must be a multiple of {parts}, the parts of layout "
            f"{layout!r} for {world_size} ranks; got {seq_len}: pad to {up}, "
            "and mask the padding unless causal attention already does"
        )
    part = torch.arange(seq_len // parts)
    if layout == "contiguous":
        return part + rank * len(part)
    return torch.cat([part + i * len(part) for i in (rank, parts - 1 - rank)])


def shard(
    x: Tensor,
    dim: int,
    *,
    layout: str = "contiguous",
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """Return this rank's part of a tensor that every rank has.

    Args:
        x: the whole, of any shape and dtype.
        dim: the axis to split, a sequence: -2 of ``(B, H, L, D)``.
        layout: see ``shard_positions``.
        group: the ranks that share it; all ranks when None.

    Returns:
        A copy, contiguous, ``1 / W`` as long along ``dim``.

    Raises:
        ValueError: the length cannot be split into equal parts.

    Example:
        >>> def work(rank):
        ...     tokens = torch.arange(8)
        ...     return attn.distributed.shard(tokens, 0, layout="zigzag")
        >>> attn.distributed.launch(work, 2)
        [tensor([0, 1, 6, 7]), tensor([2, 3, 4, 5])]
    """
    place = find_place(group, "shard")
    at = shard_positions(x.shape[dim], place.rank, place.size, layout=layout)
    return x.index_select(dim, at.to(x.device))


def unshard(
    x: Tensor,
    dim: int,
    *,
    layout: str = "contiguous",
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """Return the whole of a tensor of which each rank has a part.

    The inverse of ``shard``, by an all-gather. It has no gradient: sum the
    losses of the parts instead.

    Args:
        x: this rank's part, of the same shape and dtype on every rank.
        dim, layout, group: those of ``shard``.

    Returns:
        The whole, on every rank.

    Raises:
        ValueError: the parts differ in shape or dtype.
        RuntimeError: a gradient was propagated to the result.

    Example:
        >>> def work(rank):
        ...     whole = torch.arange(12.0).view(4, 3)
        ...     part = attn.distributed.shard(whole, 0)
        ...     again = attn.distributed.unshard(part, 0)
        ...     return part.shape, torch.equal(again, whole)
        >>> attn.distributed.launch(work, 2)
        [(torch.Size([2, 3]), True), (torch.Size([2, 3]), True)]
    """
    place = find_place(group, "unshard")
    facts = {"x": (tuple(x.shape), x.dtype), "dim": dim, "layout": layout}
    agree(place, "unshard", x.device, **facts)
    return _Unshard.apply(x, dim % x.dim(), layout, place)


class _Unshard(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dim: int, layout: str, place: Place
    ) -> Tensor:
        length = place.size * x.shape[dim]
        order = every_position(length, place.size, layout).flatten()
        parts = torch.cat([*all_gather(x, place)], dim)
        return parts.index_select(dim, order.argsort().to(x.device))

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise RuntimeError(
            "unshard has no gradient: compute the loss of each part, and sum "
            "those of the ranks; or detach the result"
        )


def check_rank(rank: int, world_size: int) -> None:
    """Require one of the ranks."""
    arguments.integer("rank", rank)
    arguments.count("world_size", world_size)
    if not 0 <= rank < world_size:
        raise ValueError(
            f"rank must be from 0 to {world_size - 1}; got {rank}"
        )


def every_position(length: int, world_size: int, layout: str) -> Tensor:
    """Return the positions of all ranks, ``(W, length / W)``."""
    ranks = range(world_size)
    return torch.stack(
        [shard_positions(length, r, world_size, layout=layout) for r in ranks]
    )
