"""The checks of latent attention: its options, its indexer, its cache."""

from __future__ import annotations

from typing import Any

from attn import arguments
from attn.cache import LatentCache
from attn.nn.indexer import LightningIndexer

GATES = (None, "element", "head")


def options(absorb: object, gate: object) -> None:
    """Require a way to compute, and a kind of gate."""
    if not (isinstance(absorb, bool) or absorb == "auto"):
        raise ValueError(
            f"absorb must be True, False or 'auto'; got {absorb!r}"
        )
    arguments.choice("gate", gate, GATES)


def indexer(indexer: Any, q_lora_rank: int | None) -> None:
    """Require an indexer that reads the latent queries, if there are any."""
    if indexer is None:
        return
    need = "a LightningIndexer or None"
    arguments.instance("indexer", indexer, LightningIndexer, need)
    got = indexer.wq_b.in_features
    if q_lora_rank is not None and got != q_lora_rank:
        raise ValueError(
            f"indexer must have q_dim={q_lora_rank}, the q_lora_rank; got "
            f"{got}"
        )


def cache(cache: Any) -> None:
    """Require a cache of latents."""
    if cache is not None and not isinstance(cache, LatentCache):
        raise TypeError(
            "cache must be a LatentCache, which keeps a latent for all "
            f"heads; got {type(cache).__name__}"
        )
