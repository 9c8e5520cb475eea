"""What the families have in common: our names, and how fields are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import nn

from attn.hf.config import Config
from attn.hf.weights import Table
from attn.nn import Transformer
from attn.positions import LearnedPositions, Rope


class Family(NamedTuple):
    """How to read one family."""

    arguments: Callable[[Config], dict[str, Any]]
    table: Table
    prefix: str  # that a model with a head puts before its body's names
    make: Callable[..., nn.Module] = Transformer
    # Parts that not every checkpoint has, and a weight that tells.
    parts: dict[str, str] = {"head": "lm_head.weight"}
    tied: tuple[str, str] = ("head.weight", "token_embedding.weight")
    buffers: tuple[str, ...] = ()  # stored by old checkpoints; not weights


Q, K, V, OUT = (f"blocks.*.attention.{x}_proj" for x in ("q", "k", "v", "out"))
UP, DOWN, GATE = (
    f"blocks.*.feed_forward.{x}_proj" for x in ("up", "down", "gate")
)
NORM_1, NORM_2 = "blocks.*.attention_norm", "blocks.*.feed_forward_norm"
POST_1, POST_2 = (
    "blocks.*.attention_post_norm",
    "blocks.*.feed_forward_post_norm",
)
ROTARY = (".rotary_emb.inv_freq",)  # a buffer of old checkpoints


def activation(c: Config, field: str) -> str:
    """Our name for an activation."""
    name = c(field)
    if name not in ACTIVATIONS:
        c.refuse(field, list(ACTIVATIONS))
    return ACTIVATIONS[name]


ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def learned(max_len: int, embed_dim: int) -> LearnedPositions:
    """A table to be filled: nothing is drawn for it."""
    with torch.device("meta"):
        return LearnedPositions(max_len, embed_dim)


def rope(c: Config, head_dim: int, partial: bool = False) -> Rope:
    """``rope_parameters`` as a module; ours refuses what it does not know.

    Args:
        partial: whether the family turns a part of each head only.
    """
    law = {k: v for k, v in c("rope_parameters").items() if v is not None}
    kind = law.pop("rope_type", law.pop("type", "default"))
    law.pop("type", None)
    partial = partial or kind == "proportional"
    if not partial and law.get("partial_rotary_factor", 1.0) != 1.0:
        c.refuse("rope_parameters", "partial_rotary_factor = 1.0")
    try:
        return Rope(
            head_dim,
            float(law.pop("rope_theta")),
            kind,
            max_position_embeddings=c("max_position_embeddings"),
            **law,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NotImplementedError(
            f"config.rope_parameters is {c('rope_parameters')}: {error}"
        ) from error


def windows(
    c: Config, kinds: Iterable[str]
) -> list[tuple[int, int | None] | None]:
    """The window of each layer.

    Hugging Face's ``sliding_window`` counts the token itself where the
    model is causal, and does not where it looks both ways.
    """
    size = c("sliding_window")
    found: list[tuple[int, int | None] | None] = []
    for kind in kinds:
        if kind == "full_attention":
            found.append(None)
        elif kind == "sliding_attention" and size is not None:
            causal = c("is_causal", True)
            found.append((size - 1, None) if causal else (size, size))
        else:
            c.refuse("layer_types", ["full_attention", "sliding_attention"])
    return found
