"""Bake which pairs a few masks allow, for the blocks of chapter 14.

    python -m book.figures.block_tiles

A row of a mask is a string, 1 where the query may attend.
"""

from __future__ import annotations

import torch

import attn
from book.figures.bake import bake

LENGTHS = (7, 12, 5)  # of the documents
LENGTH = sum(LENGTHS)
IDS = torch.repeat_interleave(torch.arange(3), torch.tensor(LENGTHS))
MASKS = {
    "causal()": attn.causal(),
    "sliding_window(6)": attn.sliding_window(6),
    "documents(ids)": attn.documents(IDS),
    "causal() & documents(ids)": attn.causal() & attn.documents(IDS),
    "causal() | prefix(5)": attn.causal() | attn.prefix(5),
}


def numbers() -> dict[str, object]:
    return {
        "length": LENGTH,
        "masks": {
            name: ["".join("01"[x] for x in row) for row in mask.int()]
            for name, mask in (
                (name, mask.dense(LENGTH)[0, 0])
                for name, mask in MASKS.items()
            )
        },
    }


if __name__ == "__main__":
    bake("block_tiles", numbers())
