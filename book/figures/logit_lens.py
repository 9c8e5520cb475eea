"""Bake what SmolLM2 would write if it stopped after each of its blocks.

    python -m book.figures.logit_lens

The model runs in float64, so that the numbers are the same on every machine.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

import torch
from torch import Tensor

import attn
from attn.data import smollm2
from attn.nn import Transformer
from book.figures.bake import bake

#: The chapter's question first; each with the word to look at, by its place
#: in the answer. The last answer is wrong: the model is a small one.
QUESTIONS = {
    "What is the capital of France?": 5,  # Paris
    "What is the opposite of hot?": 5,  # cold
    "What language do people speak in Brazil?": 7,  # Portuguese
    "Which planet is closest to the sun?": 7,  # Venus
}
WORDS = 8  # of each answer, the sign for its end included
GUESSES = 5  # of each word, after each block


@functools.cache
def in_float64() -> Transformer:
    return copy.deepcopy(smollm2().model).double()


@torch.no_grad()
def lens(question: str) -> tuple[Tensor, Tensor]:
    """Return the answer, and the logits of each word after each block.

    Returns:
        The ids of the answer's words, ``(N,)``, and ``(blocks + 1, N, V)``.
    """
    lm = smollm2()
    prompt = lm.encode(
        f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    )
    said = attn.generate(lm.model, prompt, WORDS, eos=lm.eos)
    model = in_float64()
    stream = [model.token_embedding(said)]  # (1, L, E) each
    hooks = [
        block.register_forward_hook(lambda _, x, out: stream.append(out))
        for block in model.blocks
    ]
    model(said)
    for hook in hooks:
        hook.remove()
    at = slice(prompt.shape[1] - 1, -1)
    logits = model.head(model.final_norm(torch.stack(stream)[:, 0, at]))
    return said[0, at.start + 1 :], logits


def shown(token: int) -> str:
    """Return a token as it is written, with a sign for what is not seen."""
    text = smollm2().tokenizer.decode([token], skip_special_tokens=False)
    signs = {"\n": "⏎", "": "(nothing)", "<|im_end|>": "(end)"}
    text = signs.get(text, text.strip() or "(space)")
    return "(part of a sign)" if "\ufffd" in text else text


def numbers() -> dict[str, object]:
    names: dict[int, int] = {}  # the tokens in use, numbered as they come

    def numbered(tokens: list[int]) -> list[int]:
        return [names.setdefault(i, len(names)) for i in tokens]

    def rounded(shares: Tensor) -> Any:
        return [[round(p, 3) for p in row] for row in shares.tolist()]

    lenses = []
    for question, chosen in QUESTIONS.items():
        ids, logits = lens(question)
        every = ids.expand(len(logits), -1)[..., None]
        right, shares = logits.gather(-1, every), logits.softmax(-1)
        best = shares.topk(GUESSES)
        entry = {
            "question": question,
            "chosen": chosen,
            "words": numbered(ids.tolist()),
            # Of the answer's own words, (blocks + 1, N) each:
            "places": (1 + (logits > right).sum(-1)).tolist(),
            "shares": rounded(shares.gather(-1, every)[..., 0]),
            # The likeliest tokens, (blocks + 1, N, GUESSES) each:
            "guesses": [
                [numbered(word) for word in block]
                for block in best.indices.tolist()
            ],
            "likely": [rounded(block) for block in best.values],
        }
        lenses.append(entry)
    return {
        "vocabulary": logits.shape[-1],
        "names": [shown(i) for i in names],
        "lenses": lenses,
    }


if __name__ == "__main__":
    bake("logit_lens", numbers())
