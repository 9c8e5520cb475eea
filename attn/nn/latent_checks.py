"""The checks of latent attention: its options, its tokens, its cache."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from attn.cache import LatentCache
from attn.nn.indexer import LightningIndexer

GATES = (None, "element", "head")


def options(absorb: object, dropout: float, gate: object) -> None:
    """Require a way to compute, a probability and a kind of gate."""
    if absorb not in (True, False, "auto"):
        raise ValueError(
            f"absorb must be True, False or 'auto'; got {absorb!r}"
        )
    if not 0.0 <= dropout <= 1.0:
        raise ValueError(f"dropout must be 0 to 1; got {dropout}")
    if gate not in GATES:
        raise ValueError(f"gate must be one of {GATES}; got {gate!r}")


def indexer(indexer: Any, q_lora_rank: int | None) -> None:
    """Require an indexer that reads the latent queries, if there are any."""
    if indexer is None:
        return
    if not isinstance(indexer, LightningIndexer):
        raise TypeError(
            "indexer must be a LightningIndexer or None; got "
            f"{type(indexer).__name__}"
        )
    got = indexer.wq_b.in_features
    if q_lora_rank is not None and got != q_lora_rank:
        raise ValueError(
            f"indexer must have q_dim={q_lora_rank}, the q_lora_rank; got "
            f"{got}"
        )


def tokens(x: Any, embed_dim: int) -> None:
    """Require dense tokens of the module's size."""
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a tensor; got {type(x).__name__}")
    if x.is_nested or x.dim() != 3 or x.shape[-1] != embed_dim:
        got = "a nested tensor" if x.is_nested else tuple(x.shape)
        raise ValueError(
            f"x must have shape (B, L, E) with E = {embed_dim}; got {got}"
        )


def cache(cache: Any, lengths: Tensor | None) -> None:
    """Require a cache of latents, also for lengths."""
    if cache is not None and not isinstance(cache, LatentCache):
        raise TypeError(
            "cache must be a LatentCache, which keeps a latent for all "
            f"heads; got {type(cache).__name__}"
        )
    if lengths is not None and cache is None:
        raise ValueError(
            "lengths must be None without a cache: pass a "
            "key_padding_mask; got a tensor"
        )
