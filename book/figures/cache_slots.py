"""Bake what SmolLM2 attends to and expects under each cache, and the work.

    python -m book.figures.cache_slots

The model runs in float64, so that the numbers are the same on every machine.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from attn.cache import SlidingCache
from attn.cost import PUBLISHED
from attn.data import smollm2
from attn.masks import Mask, causal
from book.figures.bake import bake

TEXT = "The capital of France is Paris. The capital of Japan is Tokyo."
WINDOWS, SINKS = range(1, 9), range(5)


def policies() -> dict[str, Mask]:
    """Return the mask of each cache: all of the past, then the windows."""
    windows = {
        f"{window} {sinks}": SlidingCache(window, sinks).mask
        for window in WINDOWS
        for sinks in SINKS
    }
    return {"all": causal(), **windows}


def written(token: int) -> str:
    """Return a token without its space, a line's end as a sign."""
    return smollm2().tokenizer.decode([token]).strip() or "⏎"


def shares(row: Tensor) -> list[int]:
    """Return the weights of the keys that are attended to, in percent."""
    return [round(100 * weight) for weight in row[row > 0].tolist()]


@torch.no_grad()
def numbers() -> dict[str, object]:
    lm, shape = smollm2(), PUBLISHED["SmolLM2-135M"]
    ids = lm.encode(TEXT)  # (1, L)
    L, masks = ids.shape[1], policies()
    every = torch.cat([mask.dense(L, L) for mask in masks.values()])
    logits, maps = copy.deepcopy(lm.model).double()(
        ids.expand(len(masks), L), every, need_weights=True
    )
    mean = torch.stack(maps).mean((0, 2))  # (B, L, L), of layers and heads
    best = logits.softmax(-1).max(-1)  # (B, L)
    lengths = range(1, L + 1)
    return {
        "tokens": [written(token) for token in ids[0].tolist()],
        "bytes": shape.cache_bytes(1, 1),
        # Of a step after n - 1 tokens, and of a pass over all n.
        "step": [shape.flops(1, 1, n) for n in lengths],
        "whole": [shape.flops(1, n, logits_to_keep=1) for n in lengths],
        "weights": {
            name: [shares(row) for row in rows]
            for name, rows in zip(masks, mean, strict=True)
        },
        "expects": {
            name: [
                [written(token), round(100 * p)]
                for token, p in zip(*each, strict=True)
            ]
            for name, *each in zip(
                masks, best.indices.tolist(), best.values.tolist(), strict=True
            )
        },
    }


if __name__ == "__main__":
    bake("cache_slots", numbers())
