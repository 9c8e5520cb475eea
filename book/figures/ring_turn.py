"""Bake which rank has which piece of a text, and what a ring sends.

    python -m book.figures.ring_turn

Bytes are those of one layer of Llama 3 8B, a text of 131,072 tokens.
"""

from __future__ import annotations

from attn import distributed
from book.figures.bake import bake

RANKS = range(2, 7)
LAYOUTS = ("contiguous", "zigzag")
SIZES = {"batch": 1, "seq_len": 2**17, "num_heads": 32}
SIZES |= {"num_kv_heads": 8, "head_dim": 128}


def owners(ranks: int, layout: str) -> list[int]:
    """Return the rank of each of ``2 * ranks`` pieces of a text."""
    owner = [-1] * (2 * ranks)
    for rank in range(ranks):
        pieces = distributed.shard_positions(
            2 * ranks, rank, ranks, layout=layout
        )
        for piece in pieces.tolist():
            owner[piece] = rank
    return owner


def sent(ranks: int) -> int:
    """Return the bytes that a rank sends in all steps of a ring."""
    length = SIZES["seq_len"] // (2 * ranks) * 2 * ranks
    sizes = {**SIZES, "seq_len": length}
    return distributed.traffic("ring", ranks, **sizes)


def numbers() -> dict[str, object]:
    return {
        "owners": {
            layout: {ranks: owners(ranks, layout) for ranks in RANKS}
            for layout in LAYOUTS
        },
        "sent": {ranks: sent(ranks) for ranks in RANKS},
    }


if __name__ == "__main__":
    bake("ring_turn", numbers())
