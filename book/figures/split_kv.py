"""Bake the bytes of a cache, and those that splitting it adds.

python -m book.figures.split_kv
"""

from __future__ import annotations

import attn
from book.figures.bake import bake

PROCESSORS, SPLITS = 132, 64  # of an H100 or an H200; at most
HEADS, HEAD_DIM = 32, 128  # query heads
LENGTHS = [1024, 4096, 16384, 65536]


def cache_bytes(length: int, kv_heads: int) -> int:
    return attn.cost.kv_cache_bytes(1, length, 1, kv_heads, HEAD_DIM)


def numbers() -> dict[str, object]:
    return {
        "processors": PROCESSORS,
        "most": SPLITS,
        "partial": 2 * 4 * HEADS * (HEAD_DIM + 1),  # of one split
        "cache": {
            length: {
                heads: cache_bytes(length, heads)
                for heads in (1, 2, 4, 8, 16, 32)
            }
            for length in LENGTHS
        },
    }


if __name__ == "__main__":
    bake("split_kv", numbers())
