"""A Llama that reads in both directions and knows no order.

For sets and other inputs that are no text: the embeddings come from
elsewhere, every token sees every real token, and to change the order of the
input changes the order of the output, and nothing else. Nothing of
transformers is overridden that a later version might rename.
"""

from __future__ import annotations

import copy
import functools
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attn.hf.attach import attach
from attn.positions import NoRope

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaModel

__all__ = ["bidirectional_llama"]


def bidirectional_llama(
    config: LlamaConfig | str | PathLike[str], impl: str = "auto"
) -> LlamaModel:
    """A ``LlamaModel`` without causality, positions or words.

    Call it with ``inputs_embeds`` ``(B, L, E)`` and, where rows are padded,
    ``attention_mask`` ``(B, L)``. Layers, weights, ``save_pretrained`` and
    everything else are Llama's own.

    Args:
        config: of the model, which is copied; or a folder that such a model
            was saved in.
        impl: who computes attention, as in ``attn.hf.register``.

    Returns:
        The model. Its token embeddings are 0 and take no gradient.

    Raises:
        ValueError: when called, for ``use_cache``, a cache, ``input_ids`` or
            ``position_ids``: each would be ignored, or mean something else.

    Source: transformers 5.23, ``LlamaModel``; its ``config.is_causal``.
    """
    cls = _class()
    if isinstance(config, str | PathLike):
        model = cls.from_pretrained(config)
    else:
        model = cls(copy.deepcopy(config))
    attach(model.forget_words(), impl)
    return model


@functools.cache
def _class() -> Any:
    from transformers import LlamaModel

    class BidirectionalLlama(LlamaModel):
        def __init__(self, config: LlamaConfig):
            config.is_causal = False  # masks are made accordingly
            config.use_cache = False
            super().__init__(config)
            head_dim = getattr(config, "head_dim", None)
            size = head_dim or config.hidden_size // config.num_attention_heads
            self.rotary_emb = NoRope(size)  # type: ignore[assignment]
            for layer in self.layers:  # asked when there is no mask
                layer.self_attn.is_causal = False  # type: ignore[union-attr]

        def forget_words(self) -> BidirectionalLlama:
            with torch.no_grad():
                self.embed_tokens.weight.zero_()
            self.embed_tokens.weight.requires_grad_(False)
            return self

        def forward(
            self,
            input_ids: Tensor | None = None,
            attention_mask: Tensor | None = None,
            position_ids: Tensor | None = None,
            past_key_values: Any = None,
            inputs_embeds: Tensor | None = None,
            use_cache: bool | None = None,
            **said: Any,
        ) -> Any:
            if use_cache or past_key_values is not None:
                raise ValueError(
                    f"use_cache is {use_cache}: a new token changes what all "
                    "earlier ones see, so there is nothing that could be kept"
                )
            if inputs_embeds is None or input_ids is not None:
                raise ValueError(
                    "input_ids: the token embeddings of this model are 0; it "
                    "needs inputs_embeds (B, L, E), and nothing else"
                )
            if position_ids is not None:
                raise ValueError(
                    "position_ids: this model has no positions, and "
                    "transformers reads positions that jump as the borders "
                    "of packed sequences; use attention_mask"
                )
            return super().forward(
                attention_mask=attention_mask,
                inputs_embeds=inputs_embeds,
                use_cache=False,
                **said,
            )

    return BidirectionalLlama
