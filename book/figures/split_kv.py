"""Bake the bytes that a decoding step moves, and model the time they take.

    python -m book.figures.split_kv

Nothing here is measured. A processor moves an equal share of the bandwidth
of an H100, 3.35 TB/s by its data sheet, however many programs it runs, and
nothing else takes time: no launch, no arithmetic, no cache.
"""

from __future__ import annotations

import math

import attn
from book.figures.bake import bake

PROCESSORS, SPLITS = 132, 64  # of an H100 or an H200; at most
BANDWIDTH = 3.35e12  # bytes a second, of an H100
HEADS, HEAD_DIM = 32, 128  # query heads
LENGTHS = [1024, 4096, 16384, 65536]
PART = 4 * (HEAD_DIM + 1)  # bytes of a part of one query head: output, lse


def cache_bytes(length: int, kv_heads: int) -> int:
    return attn.cost.kv_cache_bytes(1, length, 1, kv_heads, HEAD_DIM)


def microseconds(
    splits: int, kv_heads: int, length: int
) -> tuple[float, float]:
    """Model the time of all programs, and of the merger.

    A program loads its keys and values, and stores the parts of its query
    heads. The merger has a program for each query head, which loads all its
    parts, each on a processor of its own.

    Args:
        splits: parts of the keys.
        kv_heads: key heads; each part of each has a program.
        length: keys, ``S``.
    """
    processor = BANDWIDTH / PROCESSORS / 1e6  # bytes a microsecond
    loads = cache_bytes(math.ceil(length / splits), 1)
    stores = HEADS // kv_heads * PART
    in_turn = math.ceil(splits * kv_heads / PROCESSORS)
    merger = splits * PART / processor
    return in_turn * (loads + stores) / processor, merger


def numbers() -> dict[str, object]:
    return {
        "processors": PROCESSORS,
        "bandwidth": BANDWIDTH,
        "most": SPLITS,
        "heads": HEADS,
        "part": PART,
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
