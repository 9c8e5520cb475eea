"""A choice of keys as booleans, and as a mask that looks them up."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.masks.extent import Extent
from attn.masks.mask import Mask


def choose(
    scores: Tensor, k: int, allowed: Tensor | None, always: Tensor | None
) -> Tensor:
    """Return the best ``k`` allowed entries of each row, as booleans."""
    may = scores > -torch.inf
    may = may if allowed is None else may & allowed
    scores = scores.masked_fill(~may, -torch.inf)
    if always is not None:
        first = always & may
        if tracing.has_values(first) and first.numel():
            most = int(first.sum(-1).max())
            if most > k:
                raise ValueError(
                    f"always must have at most k = {k} keys a query, because "
                    f"they count; got {most}"
                )
        scores = scores.masked_fill(first, torch.inf)
    # topk leaves the order of equal scores open; a stable sort does not.
    order = scores.sort(dim=-1, descending=True, stable=True).indices[..., :k]
    return torch.zeros_like(may).scatter(-1, order, True) & may


def mask_of_choice(
    chosen: Tensor,
    start: int | Tensor,
    text: str,
    group: int = 1,
    block_size: int = 1,
    kv_len: int | None = None,
) -> Mask:
    """Return the mask of a choice, ``(B, Hkv, L, blocks)``."""
    B, _, L, columns = chosen.shape
    end = start + L if isinstance(start, int) else None
    kv_len = columns if kv_len is None else kv_len
    return Mask(
        partial(is_chosen, chosen, start, group, block_size),
        text,
        extent=Extent(batch=B, q_len=end, kv_len=kv_len),
    )


def is_chosen(
    chosen: Tensor,
    start: int | Tensor,
    group: int,
    block_size: int,
    b: Any,
    h: Any,
    q_idx: Any,
    kv_idx: Any,
) -> Any:
    """Look up ``chosen``, ``(1 or B, 1 or Hkv, L, blocks)``."""
    B, heads, L, blocks = chosen.shape
    q_idx, kv_idx = torch.as_tensor(q_idx), torch.as_tensor(kv_idx)
    arguments.same_device("the mask's data", chosen, "the positions", q_idx)
    if isinstance(start, Tensor):
        start = start.to(chosen.device).expand(B)[b if B > 1 else b * 0]
    row, column = q_idx - start, kv_idx // block_size
    inside = (row >= 0) & (row < L) & (column >= 0) & (column < blocks)
    b, h = b if B > 1 else b * 0, h // group if heads > 1 else h * 0
    last = (max(L - 1, 0), max(blocks - 1, 0))
    return (
        inside & chosen[b, h, row.clamp(0, last[0]), column.clamp(0, last[1])]
    )


def is_complete(
    block_size: int, b: Any, h: Any, q_idx: Any, kv_idx: Any
) -> Any:
    return (kv_idx + 1) * block_size <= q_idx + 1
