"""Masks of chosen keys: the best few for each query, tokens or blocks."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import arguments, tracing
from attn.masks.chosen import choose, is_complete, mask_of_choice
from attn.masks.extent import check_q_offset
from attn.masks.mask import Mask
from attn.masks.patterns import causal

POOLS = ("mean", "bounds")


def top_k(
    scores: Tensor,
    k: int,
    mask: Mask | Tensor | None = None,
    *,
    always: Mask | None = None,
    q_offset: int | Tensor | None = None,
) -> Mask:
    """Allow the ``k`` keys with the highest scores for each query.

    A query has fewer when fewer may attend, and never more: of equal scores,
    the lowest index wins. The choice passes no gradient to the scores.

    Args:
        scores: ``(L, S)``; ``(B, L, S)``, one choice for all heads; or
            ``(B, H, L, S)``. A key with ``-inf`` is never chosen.
        k: keys for each query, at least 1.
        mask: which keys may be chosen: a ``Mask``, or bool, broadcastable to
            the scores. With a causal one, early queries do not waste their
            choice on the future.
        always: keys of each query that are chosen first, if they may
            attend; they count, so that at most ``k`` may be given.
        q_offset: position of the first query among the keys, as in
            ``attn.scaled_dot_product_attention``; 0 when ``L = S``.

    Returns:
        A mask for the positions of these queries and keys alone.

    Raises:
        ValueError, TypeError: shapes do not fit, a score is NaN (not checked
            in a compiled graph), or ``always`` has more than ``k`` keys.

    Example:
        >>> scores = torch.tensor([[9, 9, 9], [1, 2, 9], [3, 1, 2.0]])
        >>> attn.masks.top_k(scores, 2, attn.causal()).dense(3)[0, 0].long()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 0, 1]])

    Source: DeepSeek-AI 2025, "DeepSeek-V3.2", equation 2.
    """
    arguments.count("k", k)
    if not isinstance(scores, Tensor) or not 2 <= scores.dim() <= 4:
        raise ValueError(
            "scores must be a tensor (L, S), (B, L, S) or (B, H, L, S); got "
            f"{getattr(scores, 'shape', type(scores).__name__)}"
        )
    if not scores.is_floating_point():
        raise TypeError(f"scores must be floating; got {scores.dtype}")
    if mask is not None and not isinstance(mask, Mask | Tensor):
        raise TypeError(
            f"mask must be a Mask or a bool tensor; got {type(mask).__name__}"
        )
    if tracing.has_values(scores) and bool(scores.isnan().any()):
        raise ValueError("scores must be numbers; got NaN")
    shape = scores.shape
    if isinstance(mask, Tensor):
        mask = _as_scores(mask, shape)
    scores = _to_4d(scores.detach())  # (B, H, L, S)
    start = _start(q_offset, scores.shape, mask, always)
    allowed = _dense(mask, scores, start)
    first = None if always is None else _dense(always, scores, start)
    chosen = choose(scores, k, allowed, first)
    return mask_of_choice(chosen, start, f"top_k({k}, scores {tuple(shape)})")


def top_k_blocks(
    query: Tensor,
    key: Tensor,
    block_size: int,
    k: int,
    *,
    pool: str = "mean",
    mask: Mask | None = None,
    q_offset: int | Tensor | None = None,
) -> Mask:
    """Allow the ``k`` blocks of keys that promise most to each query.

    A query's own block is always one of them, and is read up to the query;
    the others lie before it, and are compared without a look at their keys.
    Heads that share keys share the choice: their scores are added.

    Args:
        query, key: ``(B, H, L, D)`` and ``(B, Hkv, S, D)``, rotated.
        block_size: keys in a block, the last one perhaps fewer.
        k: blocks for each query, its own included, at least 1.
        pool: what stands for a block: ``"mean"``, the score of its mean key
            (MoBA); or ``"bounds"``, the highest score that the least and the
            greatest element of each feature allow (Quest).
        mask: what queries may attend to, in addition to ``causal()``. A block
            without such a key is not chosen; all its keys are pooled.
        q_offset: position of the first query among the keys, as in
            ``attn.scaled_dot_product_attention``; 0 when ``L = S``.

    Returns:
        A mask, causal too, for these positions alone.
        ``block_mask(…, block_size=block_size)`` lets FlexAttention skip what
        no query of a block has chosen.

    Raises:
        ValueError, TypeError: a size does not fit, or ``pool`` is unknown.

    Example:
        >>> key = torch.tensor([1.0, 1, 5, 5, 3, 3])[None, None, :, None]
        >>> query = torch.ones(1, 1, 6, 1)
        >>> mask = attn.masks.top_k_blocks(query, key, block_size=2, k=2)
        >>> mask.dense(6)[0, 0, 3:].long()  # own block, and the best before
        tensor([[1, 1, 1, 1, 0, 0],
                [0, 0, 1, 1, 1, 0],
                [0, 0, 1, 1, 1, 1]])

    Source: Lu et al. 2025, "MoBA"; Tang et al. 2024, "Quest" (bounds); Yuan
    et al. 2025, "Native Sparse Attention" (heads of a group).
    """
    arguments.count("k", k)
    _check_blocks(query, key, block_size, pool)
    query, key = query.detach(), key.detach()
    B, H, L, _ = query.shape
    Hkv, S = key.shape[1], key.shape[2]
    start = _start(q_offset, (B, H, L, S), causal())
    scores = _block_scores(query, key, block_size, pool)  # (B, Hkv, L, S/bs)
    blocks = torch.arange(scores.shape[-1], device=key.device)
    first = start
    if isinstance(start, Tensor):
        first = start.to(key.device).view(-1, 1, 1, 1)
    position = torch.arange(L, device=key.device)[:, None] + first
    own = position // block_size  # (L, 1), (B, 1, L, 1)
    allowed, is_own = blocks <= own, blocks == own
    if mask is not None:
        pairs = (mask & causal()).dense(
            L, S, batch=B, heads=H, q_offset=start, device=key.device
        )
        pairs = F.pad(pairs, (0, -S % block_size))
        useful = pairs.unflatten(-1, (-1, block_size)).any(-1)
        allowed = allowed & useful.unflatten(1, (Hkv, -1)).any(2)
    chosen = choose(scores, k, allowed, is_own)
    text = f"top_k_blocks({k} of {block_size} keys)"
    best = mask_of_choice(chosen, start, text, H // Hkv, block_size, S)
    return best & causal() if mask is None else best & causal() & mask


def compressed(block_size: int) -> Mask:
    """Allow entry ``i`` once its block of ``block_size`` tokens is complete.

    Keys are entries, one for each block, and queries are tokens: the first
    entry is visible from the last token of its block.

    Example:
        >>> attn.masks.compressed(2).dense(5, 2)[0, 0].long()
        tensor([[0, 0],
                [1, 0],
                [1, 0],
                [1, 1],
                [1, 1]])

    Source: transformers ``DeepseekV4HCACompressor``.
    """
    arguments.count("block_size", block_size)
    return Mask(partial(is_complete, block_size), f"compressed({block_size})")


def _block_scores(
    query: Tensor, key: Tensor, block_size: int, pool: str
) -> Tensor:
    """Return what each block promises to a group, ``(B, Hkv, L, blocks)``."""
    S, Hkv = key.shape[2], key.shape[1]
    dtype = torch.promote_types(query.dtype, torch.float32)
    padding = (0, 0, 0, -S % block_size)

    def blocks(fill: float) -> Tensor:
        padded = F.pad(key.to(dtype), padding, value=fill)
        return padded.unflatten(2, (-1, block_size))  # (B, Hkv, n, bs, D)

    # The sum over the heads of a group is the score of their summed query
    # for a mean, and of the summed halves for bounds.
    groups = query.to(dtype).unflatten(1, (Hkv, -1))  # (B, Hkv, G, L, D)
    if pool == "mean":
        sizes = torch.ones(S, device=key.device, dtype=dtype)
        sizes = F.pad(sizes, padding[2:]).unflatten(0, (-1, block_size)).sum(1)
        mean = blocks(0.0).sum(3) / sizes[:, None]  # (B, Hkv, n, D)
        return groups.sum(2) @ mean.mT
    greatest, least = blocks(-torch.inf).amax(3), blocks(torch.inf).amin(3)
    up, down = groups.clamp(min=0).sum(2), groups.clamp(max=0).sum(2)
    return up @ greatest.mT + down @ least.mT


def _to_4d(x: Tensor) -> Tensor:
    """Return ``(B, H, L, S)`` of ``(L, S)`` or ``(B, L, S)``."""
    return x[None, None] if x.dim() == 2 else x[:, None] if x.dim() == 3 else x


def _as_scores(mask: Tensor, shape: torch.Size) -> Tensor:
    """Return a bool mask in the scores' rank, as four axes."""
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask must be bool, True = may be chosen; got {mask.dtype}"
        )
    try:
        return _to_4d(mask.expand(shape))
    except RuntimeError:
        raise ValueError(
            f"mask must broadcast to the scores, {tuple(shape)}; got "
            f"{tuple(mask.shape)}"
        ) from None


def _dense(
    mask: Mask | Tensor | None, scores: Tensor, start: int | Tensor
) -> Tensor | None:
    if not isinstance(mask, Mask):
        return mask
    B, H, L, S = scores.shape
    return mask.dense(
        L, S, batch=B, heads=H, q_offset=start, device=scores.device
    )


def _start(
    q_offset: int | Tensor | None, shape: Any, *masks: Mask | Tensor | None
) -> int | Tensor:
    """Return the first query's position; refuse to guess it."""
    B, _, L, S = shape
    if q_offset is not None:
        check_q_offset(q_offset, B)
        return q_offset
    uses = [m for m in masks if isinstance(m, Mask) and m.uses_query]
    if L != S and uses:
        raise ValueError(
            f"q_offset must be given for {L} queries and {S} keys: 0 if both "
            f"start at position 0, {S - L} if the queries are the last "
            "tokens (decoding); got None"
        )
    return 0


def _check_blocks(query: Any, key: Any, block_size: Any, pool: str) -> None:
    """Require heads that share keys evenly, and blocks."""
    for name, x in (("query", query), ("key", key)):
        if not isinstance(x, Tensor) or x.dim() != 4:
            raise ValueError(
                f"{name} must be a tensor (B, H, L, D); got "
                f"{getattr(x, 'shape', type(x).__name__)}"
            )
        if not x.is_floating_point():
            raise TypeError(f"{name} must be floating; got {x.dtype}")
        arguments.same_device(name, x, "query", query)
    if query.shape[0] != key.shape[0] or query.shape[3] != key.shape[3]:
        raise ValueError(
            "key must have the batch and the head_dim of query, "
            f"{query.shape[0]} and {query.shape[3]}; got {tuple(key.shape)}"
        )
    if not key.shape[1] or query.shape[1] % key.shape[1]:
        raise ValueError(
            "query must have a multiple of key's heads (H % Hkv == 0); got "
            f"{query.shape[1]} and {key.shape[1]}"
        )
    arguments.count("block_size", block_size)
    arguments.choice("pool", pool, POOLS)
