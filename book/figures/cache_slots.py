"""Bake the bytes that a token takes in SmolLM2's cache.

python -m book.figures.cache_slots
"""

from __future__ import annotations

from attn import cost
from book.figures.bake import bake

MOST = 16  # tokens


def numbers() -> dict[str, object]:
    # SmolLM2: 30 layers, 3 key heads of 64, in bfloat16.
    return {"most": MOST, "bytes": cost.kv_cache_bytes(1, 1, 30, 3, 64)}


if __name__ == "__main__":
    bake("cache_slots", numbers())
