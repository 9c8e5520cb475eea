"""Drafts that branch: one mask, and a position for each node.

A tree of tokens is a list of parents. Written behind one another, its tokens
are ordinary keys and queries; a node attends to its ancestors and to itself.

Source: Miao et al. 2024, "SpecInfer"; Cai et al. 2024, "Medusa".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.masks import Mask
from attn.masks.extent import Extent


def tree_mask(parents: Sequence[int] | Tensor, context: int = 0) -> Mask:
    """Allow each node of a tree its ancestors, itself, and the context.

    The tree is written behind the ``context`` tokens of the text so far,
    which are causal among themselves. A parent comes before its children, so
    the tree allows nothing that a causal mask forbids.

    Args:
        parents: index of each node's parent in the tree, -1 for a root,
            integers ``(T,)``, or ``(B, T)`` for a tree in each row.
        context: number of tokens before the tree.

    Returns:
        A mask over ``context + T`` positions.

    Raises:
        ValueError, TypeError: no node, or a parent that does not come first.

    Example:
        >>> parents = [-1, 0, 0, 1]  # 0 has the children 1 and 2, 1 has 3
        >>> attn.serving.tree_mask(parents).dense(4)[0, 0].long()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [1, 0, 1, 0],
                [1, 1, 0, 1]])

    Source: Miao et al. 2024, "SpecInfer" (its topology-aware causal
    mask).
    """
    arguments.count("context", context, 0)
    rows = _ancestors(parents)
    length = context + rows.shape[-1]
    shape = tuple(torch.as_tensor(parents).shape)
    return Mask(
        partial(_in_tree, rows, context),
        f"tree_mask({shape}, context={context})",
        extent=Extent(rows.shape[0], length, length, length),
    )


def tree_positions(
    parents: Sequence[int] | Tensor, context: int = 0
) -> Tensor:
    """Return the position of each node: its depth, behind the context.

    Siblings have one position, whatever their index.

    Args:
        parents, context: as in ``tree_mask``.

    Returns:
        int64, of the shape of ``parents``; a root is at ``context``.

    Example:
        >>> attn.serving.tree_positions([-1, 0, 0, 1], context=10)
        tensor([10, 11, 11, 12])

    Source: Cai et al. 2024, "Medusa" (``medusa_position_ids``).
    """
    arguments.count("context", context, 0)
    depth = _ancestors(parents).sum(-1) - 1  # (B, T)
    positions = depth + context
    return positions.reshape(torch.as_tensor(parents).shape)


def check_parents(parents: Sequence[int] | Tensor) -> Tensor:
    """Return parents as a tensor, each before its children."""
    try:
        x = torch.as_tensor(parents)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"parents must be integers, (T,) or (B, T); got {parents!r}"
        ) from error
    if x.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"parents must be integers; got {x.dtype}")
    if x.dim() not in (1, 2) or not x.shape[-1]:
        raise ValueError(
            "parents must have shape (T,) or (B, T), with a node; got "
            f"{tuple(x.shape)}"
        )
    index = torch.arange(x.shape[-1], device=x.device)
    wrong = (x < -1) | (x >= index)
    if tracing.has_values(wrong) and bool(wrong.any()):
        at = wrong.nonzero()[0, -1]
        raise ValueError(
            "parents must come before their children, and be -1 for a root; "
            f"got parent {int(x[wrong][0])} of node {int(at)}"
        )
    return x.long()


def _ancestors(parents: Sequence[int] | Tensor) -> Tensor:
    """Return which nodes are on the path to each, bool ``(B, T, T)``."""
    x = check_parents(parents)
    x = x if x.dim() == 2 else x[None]  # (B, T)
    B, T = x.shape
    batch = torch.arange(B, device=x.device)
    found = torch.zeros(B, T, T, dtype=torch.bool, device=x.device)
    for node in range(T):
        parent = x[:, node]
        above = found[batch, parent.clamp(min=0)]
        found[:, node] = above & (parent >= 0)[:, None]
        found[:, node, node] = True
    return found


def _in_tree(
    ancestors: Tensor, context: int, b: Any, h: Any, q_idx: Any, kv_idx: Any
) -> Any:
    """Look up ``ancestors``, ``(1, T, T)`` or ``(B, T, T)``."""
    last = ancestors.shape[-1] - 1
    q = torch.as_tensor(q_idx) - context
    kv = torch.as_tensor(kv_idx) - context
    row = b if ancestors.shape[0] > 1 else b * 0
    above = ancestors[row, q.clamp(0, last), kv.clamp(0, last)]
    inside = (q >= 0) & (q <= last) & (kv <= last)
    return torch.where(kv < 0, kv <= q, inside & above)
