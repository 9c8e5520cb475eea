"""Score keys cheaply, to choose those worth attending to."""

from __future__ import annotations

import torch
from torch import Tensor

from attn import arguments


def index_scores(query: Tensor, key: Tensor, weights: Tensor) -> Tensor:
    """Score every key for every query, by a few narrow heads together.

    ``sum over heads of weights * relu(query · key)``: one score a pair for
    all heads of the attention, without a softmax.

    Args:
        query: ``(B, H, L, D)``, of the indexer.
        key: ``(B, S, D)``, one head for all.
        weights: of the heads, ``(B, L, H)``, of either sign. Every constant
            factor (``D ** -0.5``, ``H ** -0.5``) belongs in here.

    Returns:
        ``(B, L, S)``, float32 (float64 for float64), nothing masked.

    Example:
        >>> query = torch.tensor([[1.0], [-1.0]])[None, :, None]  # 2 heads
        >>> key = torch.tensor([[[3.0], [-2.0]]])  # (B, S, D)
        >>> attn.functional.index_scores(query, key, torch.ones(1, 1, 2))
        tensor([[[3., 2.]]])

    Source: DeepSeek-AI 2025, "DeepSeek-V3.2", equation 1; transformers
    ``DeepseekV32Indexer``.
    """
    named = {"query": query, "key": key, "weights": weights}
    for name, x in named.items():
        arguments.tensor(name, x, floating=True)
        arguments.same_device(name, x, "query", query)
    if query.dim() != 4:
        raise ValueError(
            f"query must have shape (B, H, L, D); got {tuple(query.shape)}"
        )
    B, H, L, D = query.shape
    if key.dim() != 3 or key.shape[0] != B or key.shape[2] != D:
        raise ValueError(
            f"key must have one head for all, (B, S, D) = ({B}, S, {D}); got "
            f"{tuple(key.shape)}"
        )
    if weights.shape != (B, L, H):
        raise ValueError(
            f"weights must have shape (B, L, H) = {(B, L, H)}; got "
            f"{tuple(weights.shape)}"
        )
    dtype = torch.promote_types(query.dtype, torch.float32)
    dots = query.to(dtype) @ key[:, None].mT.to(dtype)  # (B, H, L, S)
    heads = weights.mT[..., None].to(dtype)  # (B, H, L, 1)
    return (heads * dots.relu()).sum(1)


def indexer_loss(
    scores: Tensor, weights: Tensor, attn_mask: Tensor | None = None
) -> Tensor:
    """Return how far an indexer's scores are from the attention's weights.

    A choice of keys passes no gradient to the scores that made it, so that
    the indexer learns from the attention: the mean over queries of
    ``KL(p || softmax(scores))``, where ``p`` is the sum of the weights over
    the heads, divided by its sum. No gradient reaches the weights.

    Args:
        scores: of the indexer, ``(B, L, S)``; ``-inf`` hides a key.
        weights: of the attention, ``(B, H, L, S)``, 0 for hidden keys.
        attn_mask: bool, True = may attend, broadcastable to ``(B, L, S)``:
            the causal mask, or that of the chosen keys (which training with
            the choice compares alone).

    Returns:
        A scalar, in nats, float32 (float64 for float64). A query without
        keys does not count.

    Raises:
        ValueError, TypeError: shapes do not fit, or the mask is no bool.

    Example:
        >>> weights = torch.tensor([0.5, 0.25, 0.25]).expand(1, 2, 1, 3)
        >>> right = weights[:, 0].log()  # up to a constant
        >>> float(attn.functional.indexer_loss(right + 7, weights))
        0.0
        >>> loss = attn.functional.indexer_loss(torch.zeros(1, 1, 3), weights)
        >>> round(float(loss), 3)  # ln 3 less the entropy
        0.059

    Source: DeepSeek-AI 2025, "DeepSeek-V3.2", section 2.1, the warm-up
    and the sparse stage.
    """
    for name, x in {"scores": scores, "weights": weights}.items():
        arguments.tensor(name, x, floating=True)
        arguments.same_device(name, x, "scores", scores)
    if scores.dim() != 3:
        raise ValueError(
            f"scores must have shape (B, L, S); got {tuple(scores.shape)}"
        )
    B, L, S = scores.shape
    if weights.dim() != 4 or (weights.shape[0], *weights.shape[2:]) != (
        B, L, S,
    ):  # fmt: skip
        raise ValueError(
            f"weights must have shape (B, H, L, S) = ({B}, H, {L}, {S}), one "
            f"for each head; got {tuple(weights.shape)}"
        )
    if attn_mask is not None:
        _check_mask(attn_mask, scores)
    dtype = torch.promote_types(scores.dtype, torch.float32)
    allowed = scores > -torch.inf
    if attn_mask is not None:
        allowed = allowed & attn_mask
    has_key = allowed.any(-1)  # (B, L)
    target = weights.detach().to(dtype).sum(1).masked_fill(~allowed, 0.0)
    total = target.sum(-1, keepdim=True)
    target = target / total.where(total > 0, 1.0)  # (B, L, S)
    # A row without keys would be NaN, and so would be its gradient.
    hidden = ~allowed & has_key[..., None]
    log_q = scores.to(dtype).masked_fill(~allowed, 0.0)
    log_q = log_q.masked_fill(hidden, -torch.inf).log_softmax(-1)
    log_q = log_q.masked_fill(~allowed, 0.0)
    per_row = (torch.xlogy(target, target) - target * log_q).sum(-1)
    return per_row.sum() / has_key.sum().clamp(min=1)


def _check_mask(attn_mask: Tensor, scores: Tensor) -> None:
    """Require booleans that broadcast to the scores."""
    arguments.tensor("attn_mask", attn_mask)
    if attn_mask.dtype != torch.bool:
        raise TypeError(
            f"attn_mask must be bool, True = may attend; got {attn_mask.dtype}"
        )
    arguments.same_device("attn_mask", attn_mask, "scores", scores)
    sizes = zip(attn_mask.shape[::-1], scores.shape[::-1], strict=False)
    if attn_mask.dim() > 3 or any(n not in (1, m) for n, m in sizes):
        raise ValueError(
            f"attn_mask must broadcast to (B, L, S) = {tuple(scores.shape)}; "
            f"got {tuple(attn_mask.shape)}"
        )
