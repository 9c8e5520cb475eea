"""Bake the RoPE dial: frequencies of every law, and two pairs of vectors.

    python -m book.figures.rope_dial

The size is that of the model that chapter 7 trains on 64 tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

import attn
from book.figures.bake import bake

D, TRAINED, FACTOR = 16, 64, 8.0
LONG = {"factor": FACTOR, "original_max_position_embeddings": TRAINED}
LAWS: dict[str, dict[str, object]] = {
    "as trained": {},
    "linear": {"type": "linear", "factor": FACTOR},
    "NTK-aware": {"base": round(10000.0 * FACTOR ** (D / (D - 2)), 1)},
    "Llama 3": {
        "type": "llama3",
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        **LONG,
    },
    "YaRN": {"type": "yarn", **LONG},
}


def vectors() -> dict[str, tuple[Tensor, Tensor]]:
    """Return queries and keys, ``(1, D)``: equal ones, and two at random."""
    equal = torch.cat([torch.ones(D // 2), torch.zeros(D // 2)])[None]
    equal = equal / equal.norm()  # the score at distance 0 is 1
    generator = torch.Generator().manual_seed(63)
    query, key = torch.randn(2, 1, D, generator=generator) / D**0.25
    return {"the same": (equal, equal), "two at random": (query, key)}


def hands(x: Tensor) -> list[list[float]]:
    """Return the length and the angle of each pair of a head."""
    pairs = torch.complex(*x[0].chunk(2))  # (D / 2,)
    lengths, angles = pairs.abs().tolist(), pairs.angle().tolist()
    return [
        [round(r, 5), round(t, 5)]
        for r, t in zip(lengths, angles, strict=True)
    ]


def law(settings: dict[str, object]) -> dict[str, object]:
    found = attn.Rope(D, **settings).frequencies(torch.zeros(1))
    return {
        "theta": [float(f"{x:.7g}") for x in found.inv_freq.tolist()],
        "factor": round(found.attention_factor, 7),
        "code": ", ".join(
            [f"{D}", *(f"{k}={x!r}" for k, x in settings.items())]
        ),
    }


def numbers() -> dict[str, object]:
    return {
        "trained": TRAINED,
        "most": int(TRAINED * FACTOR) - 1,
        "laws": {name: law(settings) for name, settings in LAWS.items()},
        "vectors": {
            name: {"q": hands(query), "k": hands(key)}
            for name, (query, key) in vectors().items()
        },
    }


if __name__ == "__main__":
    bake("rope_dial", numbers())
