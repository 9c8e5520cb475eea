"""Bake the numbers of the mask workbench: masks of attn, scores, words.

    python book/figures/mask_workbench.py

A row of a mask is a string, 1 where the query may attend. There are more rows
than queries: with an offset the figure begins further down.
"""

from __future__ import annotations

import torch

import attn
from book.figures.bake import bake

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "the",
    "mat",
    ".",
    "the",
    "dog",
    "ran",
    "off",
    ".",
]
SIZE = len(WORDS)
MOST_OFFSET = 6
IDS = torch.tensor([0] * 7 + [1] * (5 + MOST_OFFSET))  # two sentences
VALID = torch.arange(SIZE) < SIZE - 2  # the last two keys are padding


def masks() -> dict[str, attn.Mask]:
    """Return the masks that the controls combine, by the figure's names."""
    found = {
        "causal": attn.causal(),
        "documents": attn.documents(IDS),
        "padding": attn.padding(VALID),
    }
    found |= {f"window {n}": attn.sliding_window(n) for n in range(1, 9)}
    found |= {f"prefix {n}": attn.prefix(n) for n in range(1, 7)}
    return found


def numbers() -> dict[str, object]:
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(SIZE, SIZE, generator=generator)
    dense = {
        name: mask.dense(SIZE + MOST_OFFSET, SIZE)[0, 0]
        for name, mask in masks().items()
    }
    return {
        "size": SIZE,
        "words": WORDS,
        "scores": [[round(x, 2) for x in row] for row in scores.tolist()],
        "masks": {
            name: ["".join("01"[int(x)] for x in row) for row in mask]
            for name, mask in dense.items()
        },
    }


if __name__ == "__main__":
    bake("mask_workbench", numbers())
