"""A Llama that attends in both directions and ignores order.

For sets and other inputs that are not text: the embeddings come from
elsewhere, every token attends to every real token, and permuting the input
permutes the output. Nothing is overridden that a later version of
transformers might rename.
"""

from __future__ import annotations

import copy
import functools
from os import PathLike
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from attn.hf.registration import attach
from attn.positions import NoRope

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaModel


def bidirectional_llama(
    config: LlamaConfig | str | PathLike[str], impl: str = "auto"
) -> LlamaModel:
    """Return a ``LlamaModel`` without causality, positions or words.

    Call it with ``inputs_embeds`` ``(B, L, E)`` and, if rows are padded,
    ``attention_mask`` ``(B, L)``. Layers, weights, ``save_pretrained`` and
    everything else are Llama's own.

    Args:
        config: of the model, which is copied; or a folder that such a model
            was saved in.
        impl: the implementation, as in ``attn.hf.register``.

    Returns:
        The model. Its token embeddings are 0 and get no gradient.

    Raises:
        ValueError: when called, for ``use_cache``, a cache, ``input_ids`` or
            ``position_ids``, which would be ignored or change their meaning.

    Source: transformers 5.23, ``LlamaModel``; its ``config.is_causal``.
    """
    cls = _model_class()
    if isinstance(config, str | PathLike):
        model = cls.from_pretrained(config)
    else:
        model = cls(copy.deepcopy(config))
    nn.init.zeros_(model.embed_tokens.weight).requires_grad_(False)
    attach(model, impl)
    return model


@functools.cache
def _model_class() -> Any:
    from transformers import LlamaModel

    class BidirectionalLlama(LlamaModel):
        def __init__(self, config: LlamaConfig):
            config.is_causal = False  # the masks follow it
            config.use_cache = False
            super().__init__(config)
            self.rotary_emb = NoRope(config.head_dim)  # type: ignore
            for layer in self.layers:  # applies when there is no mask
                layer.self_attn.is_causal = False  # type: ignore[union-attr]

        def forward(
            self,
            input_ids: Tensor | None = None,
            attention_mask: Tensor | None = None,
            position_ids: Tensor | None = None,
            past_key_values: Any = None,
            inputs_embeds: Tensor | None = None,
            use_cache: bool | None = None,
            **kwargs: Any,
        ) -> Any:
            if use_cache or past_key_values is not None:
                raise ValueError(
                    "use_cache must be False and past_key_values None, "
                    "because a new token changes all earlier ones, so no key "
                    f"can be cached; got use_cache={use_cache}"
                )
            if inputs_embeds is None or input_ids is not None:
                raise ValueError(
                    "inputs_embeds (B, L, E) must be given and input_ids must "
                    "not, because the token embeddings of this model are 0; "
                    f"got {'neither' if input_ids is None else 'input_ids'}"
                )
            if position_ids is not None:
                raise ValueError(
                    "position_ids must be None, because this model has no "
                    "positions and transformers reads jumps in them as "
                    "borders of packed sequences; use attention_mask"
                )
            return super().forward(
                attention_mask=attention_mask,
                inputs_embeds=inputs_embeds,
                use_cache=False,
                **kwargs,
            )

    return BidirectionalLlama
