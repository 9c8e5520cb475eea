"""Bake the walk over tiles: the scores, and which of them causality allows.

python -m book.figures.tile_walk
"""

from __future__ import annotations

import torch

import attn
from book.figures.bake import bake

MOST = 24  # tokens
D = 8


def tensors() -> tuple[torch.Tensor, ...]:
    """Return query, key and value of the figure, ``(H=1, MOST, D)``."""
    generator = torch.Generator().manual_seed(11)
    return torch.randn(3, 1, MOST, D, generator=generator).unbind()


def numbers() -> dict[str, object]:
    query, key, _ = tensors()
    scores = (query @ key.mT / D**0.5)[0]  # (L, S)
    shade = (scores - scores.min()) / (scores.max() - scores.min())
    allowed = attn.causal().dense(MOST, MOST)[0, 0]
    return {
        "shades": [[round(x, 1) for x in row] for row in shade.tolist()],
        "causal": ["".join("01"[int(x)] for x in row) for row in allowed],
    }


if __name__ == "__main__":
    bake("tile_walk", numbers())
