"""Bake the steps of the online softmax: what is kept after each key.

    python -m book.figures.online_softmax

The scores are those of chapter 11; values have two features, to be drawn in
the plane. A step holds the maximum, the sum and the weighted sum of values.
"""

from __future__ import annotations

import torch
from torch import Tensor

import attn
from book.figures.bake import bake

SCORES = torch.tensor([1.0, 0.5, 2.5, 2.0, 4.0, 3.0, 1.5, 4.5])
VALUES = torch.tensor(
    [
        [-1.6, 1.0],
        [-2.2, -0.4],
        [1.8, 1.3],
        [0.4, 1.5],
        [-1.2, -1.5],
        [1.2, -1.6],
        [-0.2, 0.6],
        [2.1, -0.3],
    ]
)
ORDERS = {
    "as in the text": torch.arange(8),
    "rising": SCORES.argsort(),
    "falling": SCORES.argsort(descending=True),
}


def step(scores: Tensor, values: Tensor) -> list[float]:
    """Return what is kept after some keys: top, total and out."""
    blocks = zip(scores.split(1), values.split(1), strict=True)
    out, lse = attn.online_softmax((s[None, None], v[None]) for s, v in blocks)
    total = (lse[0, 0] - scores.max()).exp()
    kept = [scores.max(), total, *(total * out[0, 0])]
    return [round(x.item(), 4) for x in kept]


def numbers() -> dict[str, object]:
    whole = SCORES.double().softmax(0) @ VALUES.double()
    return {
        "scores": SCORES.tolist(),
        "values": [[round(x, 2) for x in row] for row in VALUES.tolist()],
        "orders": {
            name: {
                "keys": keys.tolist(),
                "steps": [
                    step(SCORES[keys[:n]], VALUES[keys[:n]])
                    for n in range(1, len(keys) + 1)
                ],
            }
            for name, keys in ORDERS.items()
        },
        "whole": [round(x, 4) for x in whole.tolist()],
    }


if __name__ == "__main__":
    bake("online_softmax", numbers())
