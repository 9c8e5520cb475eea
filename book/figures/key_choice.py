"""Bake the scores by which the model of chapter 18 chooses its keys.

    python -m book.figures.key_choice

The chapter's own functions train it, in float64, so that the numbers are the
same on every machine. The text has 48 pairs, then their keys as questions.
"""

from __future__ import annotations

from typing import Any

import torch

from attn.exercises import sources
from attn.publishing.claims import record, run
from book.figures.bake import bake

PAIRS, BLOCK, SEED, STEPS = 48, 8, 2, 200


def chapter() -> dict[str, Any]:
    """Return the names of the cells that the experiment needs."""
    before = record.REPEATING
    try:
        path = sources.notebook_path("latent")
        return run.load(path, "keys_that_are_read").function.__globals__
    finally:
        record.REPEATING = before


def numbers() -> dict[str, object]:
    names, before = chapter(), torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        model, indexer = names["trained"](SEED, STEPS)
        rng = torch.Generator().manual_seed(7)
        text, _, place = names["pairs_and_questions"](1, PAIRS, rng)
        with torch.no_grad():
            x, query, key, _ = model.parts(text)
            own = (query @ key.mT)[0, 0, PAIRS:] / query.shape[-1] ** 0.5
            learned = indexer(x)[0, PAIRS:]
    finally:
        torch.set_default_dtype(before)
    return {
        "block": BLOCK,
        "place": place[0].tolist(),
        "own": _hundredths(own),
        "learned": _hundredths(learned),
    }


def _hundredths(scores: torch.Tensor) -> list[list[int]]:
    """Round the scores of the keys that each question may read."""
    rows = (100 * scores).round().int().tolist()
    return [row[: PAIRS + i + 1] for i, row in enumerate(rows)]


if __name__ == "__main__":
    bake("key_choice", numbers())
