"""Bake the states of chapter 19: a matrix that is written, token by token.

    python -m book.figures.linear_state

Keys have three features and values are one of four colours, so that a state
is a table of 3 x 4. A text says a key and a value in each token.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attn.linear import gated_delta_rule, linear_attention
from book.figures.bake import bake

COLOURS = ["blue", "green", "grey", "gold"]
KEYS = {  # of length 1, three of them at right angles
    "sky": [1.0, 0.0, 0.0],
    "grass": [0.0, 1.0, 0.0],
    "sea": [0.0, 0.0, 1.0],
    "pond": [0.0, 0.6, 0.8],
    "hill": [0.6, 0.8, 0.0],
}
TEXTS = {
    "each key once": "sky blue, grass green, sea grey",
    "a key that comes again": (
        "sky blue, grass green, sea blue, sky grey, grass gold, sky gold"
    ),
    "more keys than rows": (
        "sky blue, grass green, sea blue, pond grey, hill gold"
    ),
}
FADE = 0.7
RULES = {  # g, and beta; None: it adds
    "add": (0.0, None),
    "fade, and add": (math.log(FADE), None),
    "replace, beta 1": (0.0, 1.0),
    "replace half, beta 0.5": (0.0, 0.5),
    "reflect, beta 2": (0.0, 2.0),
}


def tokens(text: str) -> list[list[str]]:
    """Return the pairs of a text, a key and a colour each."""
    return [pair.split() for pair in TEXTS[text].split(", ")]


def tensors(text: str) -> tuple[Tensor, Tensor]:
    """Return keys ``(1, L, D)`` and values ``(1, L, Dv)``."""
    words, colours = zip(*tokens(text), strict=True)
    keys = torch.tensor([[KEYS[word] for word in words]])
    values = torch.eye(4)[[COLOURS.index(x) for x in colours]]
    return keys, values[None]


def state(text: str, rule: str, n: int) -> Tensor:
    """Return the state after the first n tokens, ``(D, Dv)``."""
    keys, values = (x[:, :n] for x in tensors(text))
    log, beta = RULES[rule]
    g = torch.full((1, n), log)
    if beta is None:
        _, found = linear_attention(
            keys, keys, values, g, output_final_state=True
        )
    else:
        strength = torch.full((1, n), beta)
        _, found = gated_delta_rule(
            keys, keys, values, None, strength, output_final_state=True
        )
    assert found is not None
    return found[0]


def numbers() -> dict[str, object]:
    return {
        "colours": COLOURS,
        "keys": KEYS,
        "texts": {text: tokens(text) for text in TEXTS},
        "states": {
            text: {
                rule: [
                    [
                        [round(x, 3) + 0.0 for x in row]
                        for row in state(text, rule, n).tolist()
                    ]
                    for n in range(1, len(tokens(text)) + 1)
                ]
                for rule in RULES
            }
            for text in TEXTS
        },
        "betas": {rule: beta for rule, (_, beta) in RULES.items()},
        "fade": FADE,
    }


if __name__ == "__main__":
    bake("linear_state", numbers())
