"""Models that can be served, by what their layers keep of a text."""

from __future__ import annotations

from typing import Any

from attn.nn import MultiHeadAttention, Transformer
from attn.nn.decoding import check_predicts


def check_model(model: Any, *others: type) -> None:
    """Require a language model of layers with keys and values, or others."""
    if not isinstance(model, Transformer):
        raise TypeError(
            "model must be an attn.Transformer; got "
            f"{type(model).__name__}: attn.hf.load converts one of "
            "transformers"
        )
    check_predicts(model.config)
    for block in model.blocks:
        layer = getattr(block, "attention", None)
        if not isinstance(layer, (MultiHeadAttention, *others)):
            need = ", ".join(["", *(x.__name__ for x in others)])
            raise TypeError(
                "model must have MultiHeadAttention in every layer, whose "
                f"keys and values fit in pages{need and ' or a'}{need[1:]}; "
                f"got {type(layer).__name__}"
            )
