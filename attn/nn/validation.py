"""The checks that modules share; attention itself has its own."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from attn.cache import Cache


def sizes(module: Any, head_dim: int | None) -> None:
    """Require positive sizes that divide each other."""
    for name in ("embed_dim", "num_heads", "num_kv_heads"):
        x = getattr(module, name)
        if isinstance(x, bool) or not isinstance(x, int) or x < 1:
            raise ValueError(f"{name} must be an int, at least 1; got {x!r}")
    if module.num_heads % module.num_kv_heads:
        raise ValueError(
            "num_heads must be a multiple of num_kv_heads (H % Hkv == 0); "
            f"got {module.num_heads} and {module.num_kv_heads}"
        )
    if head_dim is None and module.embed_dim % module.num_heads:
        raise ValueError(
            "embed_dim must be a multiple of num_heads, or head_dim must be "
            f"given; got {module.embed_dim} and {module.num_heads}"
        )


def inputs(module: Any, **tensors: Tensor) -> None:
    """Require query, key and value of the module's sizes and one batch."""
    query = tensors["query"]
    embed_dims = (module.embed_dim, module.kdim, module.vdim)
    for (name, x), size in zip(tensors.items(), embed_dims, strict=True):
        if x.dim() not in (2, 3) or x.dim() != query.dim():
            raise ValueError(
                f"{name} must have shape (B, L, E), or all three (L, E); got "
                f"{tuple(x.shape)}"
            )
        if x.shape[-1] != size:
            raise ValueError(
                f"{name} must have embeddings of size {size}, as the module; "
                f"got {x.shape[-1]}"
            )
        if x.shape[:-2] != query.shape[:-2]:
            raise ValueError(
                f"{name} must have the batch size of query, {len(query)}; "
                f"got {len(x)}"
            )


def cache(query: Tensor, is_self: bool, **others: Any) -> None:
    """Require a call that a cache supports."""
    if not is_self or query.dim() != 3 or query.is_nested:
        raise ValueError(
            "with a cache, the call must be self-attention of a dense query "
            "(B, L, E)"
        )
    for name, x in others.items():
        if x is not None:
            raise ValueError(
                f"{name} must be None with a cache, which provides it; got "
                f"{x!r}"
            )


def cached_padding(mask: Tensor | None, cache: Cache, length: int) -> None:
    """Require padding of all tokens: those in a cache and the new ones."""
    lengths = cache.mask_lengths(length)
    if mask is not None and mask.shape[-1] not in lengths:
        raise ValueError(
            "key_padding_mask must cover all tokens with a cache, "
            f"{' or '.join(map(str, lengths))}; got {mask.shape[-1]}"
        )


def positions(name: str, x: Tensor, tokens: Tensor) -> Tensor:
    """Return ``x``: ``(L,)``, ``(1, L)`` or ``(B, L)``, as the tokens."""
    batch, length = len(tokens), tokens.shape[-2]
    if x.shape not in ((length,), (1, length), (batch, length)):
        raise ValueError(
            f"{name} must have shape (L,) or (B, L) with B = {batch} and "
            f"L = {length}; got {tuple(x.shape)}"
        )
    return x
