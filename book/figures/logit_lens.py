"""Bake what SmolLM2 would write if it stopped after each of its blocks.

    python -m book.figures.logit_lens

The model runs in float64, so that the numbers are the same on every machine.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

import attn
from attn.data import smollm2
from book.figures.bake import bake

QUESTION = "What is the capital of France?"
GUESSES = 4  # of each word, after each block


@torch.no_grad()
def lens() -> tuple[list[str], Tensor, Tensor]:
    """Return the answer, and the logits of each word after each block.

    Returns:
        The tokens of the answer; their ids, ``(N,)``; and
        ``(blocks + 1, N, V)``.
    """
    lm = smollm2()
    prompt = lm.encode(
        f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
    )
    said = attn.generate(lm.model, prompt, 12, eos=lm.eos)
    model = copy.deepcopy(lm.model).double()
    stream = [model.token_embedding(said)]  # (1, L, E) each
    for block in model.blocks:
        block.register_forward_hook(lambda _, x, out: stream.append(out))
    model(said)
    at = slice(prompt.shape[1] - 1, -1)
    logits = model.head(model.final_norm(torch.stack(stream)[:, 0, at]))
    ids = said[0, at.start + 1 :]
    return [shown(i) for i in ids.tolist()], ids, logits


def shown(token: int) -> str:
    """Return a token as it is written, with a sign for what is not seen."""
    text = smollm2().tokenizer.decode([token], skip_special_tokens=False)
    signs = {"\n": "⏎", "": "(nothing)", "<|im_end|>": "(end)"}
    text = signs.get(text, text.strip() or "(space)")
    return "(part of a sign)" if "\ufffd" in text else text


def numbers() -> dict[str, object]:
    words, ids, logits = lens()
    right = logits.gather(-1, ids.expand(len(logits), -1)[..., None])
    best = logits.softmax(-1).topk(GUESSES)
    return {
        "words": words,
        "vocabulary": logits.shape[-1],
        "places": (1 + (logits > right).sum(-1)).tolist(),
        "guesses": [
            [
                [[shown(i), round(p, 3)] for i, p in zip(*word, strict=True)]
                for word in zip(*block, strict=True)
            ]
            for block in zip(
                best.indices.tolist(), best.values.tolist(), strict=True
            )
        ],
    }


if __name__ == "__main__":
    bake("logit_lens", numbers())
