"""Attention over a prefix that all rows share, read once for all of them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from attn import arguments
from attn.api import attention
from attn.functional import merge_states
from attn.masks import Mask


@arguments.named()
def cascade_attention(
    query: Tensor,
    prefix_key: Tensor,
    prefix_value: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    softcap: float | None = None,
    q_offset: int | Tensor | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute attention over a shared prefix and each row's own keys.

    Every query sees the whole prefix. There the rows of the batch become
    queries of one row, ``(1, H, B * L, D)``, so that the prefix is read once
    and not ``B`` times; then the states over prefix and own keys are merged.

    Args:
        query: ``(B, H, L, D)``.
        prefix_key, prefix_value: of the prefix, without a batch axis,
            ``(Hkv, P, D)`` and ``(Hkv, P, Dv)``.
        key, value: of the tokens behind it, ``(B, Hkv, S, D)`` and
            ``(B, Hkv, S, Dv)``.
        attn_mask, is_causal, q_offset: as in ``attn.attention``, of the own
            keys alone: key 0 is the first behind the prefix.
        scale, enable_gqa, softcap: as in ``attn.attention``.
        return_lse: also return the log-sum-exp of the scores, ``(B, H, L)``.

    Returns:
        ``(B, H, L, Dv)``; a row without own keys has the prefix alone.

    Raises:
        ValueError, TypeError: an argument is wrong.

    Example:
        >>> query = torch.randn(4, 8, 1, 16)  # 4 rows decode
        >>> prefix = torch.randn(2, 100, 16)  # (Hkv, P, D), stored once
        >>> own = torch.randn(4, 2, 5, 16)
        >>> out = attn.serving.cascade_attention(
        ...     query, prefix, prefix, own, own, enable_gqa=True
        ... )
        >>> whole = torch.cat([prefix.expand(4, -1, -1, -1), own], 2)
        >>> exact = attn.attention(query, whole, whole, enable_gqa=True)
        >>> torch.allclose(out, exact, atol=1e-5)
        True

    Source: FlashInfer, "Cascade Inference", 2 February 2024; vLLM
    ``cascade_attention``.
    """
    for name, x in (
        ("prefix_key", prefix_key),
        ("prefix_value", prefix_value),
    ):
        arguments.tensor(name, x, floating=True)
        if x.dim() != 3:
            raise ValueError(
                f"{name} must have shape (Hkv, P, D), one prefix for all "
                f"rows; got {tuple(x.shape)}"
            )
    arguments.tensor("query", query)
    if query.dim() != 4:
        raise ValueError(
            f"query must have shape (B, H, L, D); got {tuple(query.shape)}"
        )
    B, H, L, D = query.shape
    options: dict[str, Any] = {
        "scale": scale,
        "enable_gqa": enable_gqa,
        "softcap": softcap,
        "return_lse": True,
    }
    rows = query.transpose(0, 1).reshape(1, H, B * L, D)  # (1, H, B * L, D)
    prefix = (prefix_key[None], prefix_value[None])
    out, lse = attention(rows, *prefix, **options)
    first = (
        out[0].unflatten(1, (B, L)).transpose(0, 1),  # (B, H, L, Dv)
        lse[0].unflatten(1, (B, L)).transpose(0, 1),  # (B, H, L)
    )
    second = attention(
        query, key, value, attn_mask,
        is_causal=is_causal, q_offset=q_offset, **options,
    )  # fmt: skip
    out, lse = merge_states(first, (second[0], second[1]))
    return (out, lse) if return_lse else out
