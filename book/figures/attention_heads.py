"""Bake what the 72 heads of MiniLM attend to, in two sentences.

    python -m book.figures.attention_heads

A weight is one byte, 255 for 1. The model runs in float64, so that the bytes
are the same on every machine.
"""

from __future__ import annotations

import base64
import copy

import torch
from torch import Tensor

from attn.data import minilm
from book.figures.bake import bake
from book.figures.front_page import SENTENCE
from book.figures.sentence import DEPTH

WORDS = ("tired", "wide")
SENTENCES = [SENTENCE.replace(WORDS[0], word) for word in WORDS]


def exact_model() -> minilm.MiniLM:
    """Return MiniLM in float64."""
    model = copy.copy(minilm.load())
    model.weights = {name: w.double() for name, w in model.weights.items()}
    return model


def numbers() -> dict[str, object]:
    model = exact_model()
    maps = [model.run(text)[1] for text in SENTENCES]  # (layers, H, L, L)
    tokens = [model.tokens(text) for text in SENTENCES]
    return {
        "layers": model.num_layers,
        "heads": model.num_heads,
        "query": tokens[0].index("it"),
        "known": known(maps[0], tokens[0]),
        "near": known(maps[0][:DEPTH], tokens[0]),
        "sentences": [
            {"word": word, "text": text, "tokens": names, "weights": packed}
            for word, text, names, packed in zip(
                WORDS, SENTENCES, tokens, map(pack, maps), strict=True
            )
        ],
    }


def known(weights: Tensor, tokens: list[str]) -> dict[str, int]:
    """Return heads with a job that has a name, by layer * heads + head."""
    it, animal = tokens.index("it"), tokens.index("animal")
    row = torch.arange(1, len(tokens) - 1)  # without [CLS] and [SEP]
    jobs = {
        "a noun for “it”": weights[:, :, it, animal],
        "the word before": weights[:, :, row, row - 1].mean(-1),
        "the word after": weights[:, :, row, row + 1].mean(-1),
        "a place to rest": weights[:, :, row, 0].mean(-1),
    }
    return {job: int(share.argmax()) for job, share in jobs.items()}


def pack(weights: Tensor) -> str:
    shares = (255 * weights).round().to(torch.uint8)
    return base64.b64encode(shares.numpy().tobytes()).decode()


if __name__ == "__main__":
    bake("attention_heads", numbers())
