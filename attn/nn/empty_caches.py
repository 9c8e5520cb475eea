"""The caches that a model writes to, one for each block."""

from __future__ import annotations

from typing import Any

import torch

from attn import arguments
from attn.cache import (
    Cache,
    DynamicCache,
    SlidingCache,
    StateCache,
    StaticCache,
)

CACHES = ("dynamic", "static", "sliding")


def empty_caches(
    model: Any, kind: str, batch: int, capacity: int | None
) -> list[Cache]:
    """Return an empty cache for each block; see ``Transformer.new_caches``."""
    arguments.choice("kind", kind, CACHES)
    arguments.count("batch", batch)
    c = model.config
    windows = [c.of_layer("window", i) for i in range(c.num_layers)]
    left = [None if x is None else x[0] for x in windows]
    if kind == "sliding" and all(x is None for x in left):
        raise ValueError(
            "kind of cache must be 'dynamic' or 'static' for a model without "
            "windows: it needs all keys; got 'sliding'"
        )
    like = model.token_embedding.weight

    def empty(layer: int) -> Cache:
        new = getattr(model.blocks[layer].attention, "new_cache", DynamicCache)
        own, before = new(), left[layer]
        if isinstance(own, StateCache):  # of one size, whatever it has read
            return own
        if kind == "sliding" and before is not None:
            return SlidingCache(before + 1)
        if kind != "static":
            return own
        if new is not DynamicCache:
            raise ValueError(
                "kind of cache must be 'dynamic' for a model whose layers "
                f"have caches of their own; got {kind!r}"
            )
        arguments.count("capacity", capacity)
        assert capacity is not None
        # Autocast may decide the dtype.
        dtype = torch.mm(like[:1, :1], like[:1, :1]).dtype
        return StaticCache(
            batch,
            c.num_kv_heads or c.num_heads,
            capacity,
            c.head_dim or c.embed_dim // c.num_heads,
            c.value_dim,
            dtype=dtype,
            device=like.device,
        )

    return [empty(layer) for layer in range(c.num_layers)]
