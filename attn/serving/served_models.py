"""Models that can be served, by what their layers keep of a text."""

from __future__ import annotations

from typing import Any

from attn.nn import MultiHeadAttention, Transformer


def check_model(model: Any, *others: type) -> None:
    """Require a language model whose layers have keys and values.

    Args:
        model: what must be an ``attn.Transformer``.
        others: classes of other layers that will do.
    """
    if not isinstance(model, Transformer):
        raise TypeError(
            "model must be an attn.Transformer; got "
            f"{type(model).__name__}: attn.hf.load converts one of "
            "transformers"
        )
    c = model.config
    if not (c.head and c.is_causal):
        raise ValueError(
            "model must be causal and end with logits; got is_causal="
            f"{c.is_causal}, head={c.head}"
        )
    for block in model.blocks:
        layer = getattr(block, "attention", None)
        if not isinstance(layer, (MultiHeadAttention, *others)):
            need = ", ".join(["", *(x.__name__ for x in others)])
            raise TypeError(
                "model must have MultiHeadAttention in every layer, whose "
                f"keys and values fit in pages{need and ' or a'}{need[1:]}; "
                f"got {type(layer).__name__}"
            )
