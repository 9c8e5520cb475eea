"""A Llama that attends in both directions and ignores order.

For sets and other inputs that are not text: the embeddings come from
elsewhere, every token attends to every real token, and permuting the input
permutes the output. Nothing is overridden that a later version of
transformers might rename.

Importing ``attn.hf`` after transformers, or ``bidirectional_llama`` from it
at any time, registers the model with transformers' ``AutoConfig`` and
``AutoModel``. Without that they refuse a saved one, rather than open it as a
Llama with positions.
"""

from __future__ import annotations

import copy
from os import PathLike
from typing import Any

from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, LlamaConfig, LlamaModel

from attn import api, arguments
from attn.backends import Registry
from attn.hf.attachment import attach
from attn.hf.registration import register
from attn.positions import NoRope


class BidirectionalLlamaConfig(LlamaConfig):
    """The configuration of a ``BidirectionalLlama``: a Llama's.

    Example:
        >>> config = attn.hf.BidirectionalLlamaConfig(
        ...     hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        ... )
        >>> config.model_type
        'bidirectional_llama'
    """

    model_type = "bidirectional_llama"


class BidirectionalLlama(LlamaModel):
    """A ``LlamaModel`` without causality, positions or words.

    Call it with ``inputs_embeds`` ``(B, L, E)`` and, if rows are padded,
    ``attention_mask`` ``(B, L)``. Its token embeddings are 0 and get no
    gradient. It computes attention with ``attn.attention``, unless its
    configuration or ``from_pretrained`` names another implementation.

    Args:
        config: of the model.

    Raises:
        ValueError: when called, for ``use_cache``, a cache, ``input_ids``,
            ``position_ids`` or ``is_causal``, which would be ignored or
            change their meaning.

    Example:
        >>> config = attn.hf.BidirectionalLlamaConfig(
        ...     hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        ... )
        >>> model = attn.hf.BidirectionalLlama(config).eval()
        >>> x = torch.randn(1, 5, 32)
        >>> out = model(inputs_embeds=x).last_hidden_state
        >>> back = model(inputs_embeds=x.flip(1)).last_hidden_state
        >>> torch.allclose(back.flip(1), out, atol=1e-5)  # no order
        True

    Source: transformers 5.23, ``LlamaModel``; its ``config.is_causal``.
    """

    config_class = BidirectionalLlamaConfig

    def __init__(self, config: BidirectionalLlamaConfig):
        config.is_causal = False  # the masks follow it
        config.use_cache = False
        if config._attn_implementation is None:
            config._attn_implementation = register()
        super().__init__(config)
        self.rotary_emb = NoRope(config.head_dim)  # type: ignore
        for layer in self.layers:  # applies when there is no mask
            layer.self_attn.is_causal = False  # type: ignore[union-attr]
        self._remove_words()

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """Open a model, as ``PreTrainedModel.from_pretrained`` does."""
        loaded = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model._remove_words()  # of a Llama
        return loaded

    def _remove_words(self) -> None:
        nn.init.zeros_(self.embed_tokens.weight).requires_grad_(False)

    @arguments.named()
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        is_causal: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return transformers' output, whose last state is ``(B, L, E)``."""
        if use_cache or past_key_values is not None:
            raise ValueError(
                "use_cache must be False and past_key_values None, because a "
                "new token changes all earlier ones, so no key can be "
                f"cached; got use_cache={use_cache}"
            )
        if inputs_embeds is None or input_ids is not None:
            raise ValueError(
                "inputs_embeds (B, L, E) must be given and input_ids must "
                "not, because the token embeddings of this model are 0; "
                f"got {'neither' if input_ids is None else 'input_ids'}"
            )
        if is_causal:
            raise ValueError(
                "is_causal must be False, because every token of this model "
                "attends to every other; got True"
            )
        if position_ids is not None:
            raise ValueError(
                "position_ids must be None, because this model has no "
                "positions and transformers reads jumps in them as borders "
                "of packed sequences; use attention_mask"
            )
        return super().forward(
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            use_cache=False,
            **kwargs,
        )


AutoConfig.register(
    BidirectionalLlamaConfig.model_type,
    BidirectionalLlamaConfig,
    exist_ok=True,
)
AutoModel.register(BidirectionalLlamaConfig, BidirectionalLlama, exist_ok=True)


def bidirectional_llama(
    config: LlamaConfig | str | PathLike[str],
    impl: str = "auto",
    *,
    registry: Registry = api.registry,
) -> BidirectionalLlama:
    """Make a ``BidirectionalLlama``, or open one.

    ``AutoModel.from_pretrained`` opens a saved one too, once this function
    has been imported.

    Args:
        config: of the model, which is copied; or a folder with such a model,
            or with a Llama, whose layers it takes.
        impl: the implementation, as in ``attn.hf.attach``.
        registry: of the implementations.

    Returns:
        The model.

    Raises:
        ValueError: the configuration is not a Llama's.

    Example:
        >>> from transformers import LlamaConfig
        >>> config = LlamaConfig(
        ...     hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        ... )
        >>> model = attn.hf.bidirectional_llama(config)
        >>> model(inputs_embeds=torch.randn(1, 5, 32)).last_hidden_state.shape
        torch.Size([1, 5, 32])
    """
    if isinstance(config, str | PathLike):
        settings = _converted(AutoConfig.from_pretrained(config))
        model = BidirectionalLlama.from_pretrained(config, config=settings)
    else:
        model = BidirectionalLlama(_converted(config))
    attach(model, impl, registry=registry)
    return model


def _converted(config: Any) -> BidirectionalLlamaConfig:
    """Return a copy of the configuration, of this model's class."""
    if isinstance(config, BidirectionalLlamaConfig):
        return copy.deepcopy(config)
    if getattr(config, "model_type", None) != LlamaConfig.model_type:
        raise ValueError(
            "config must be a Llama's; got "
            f"{getattr(config, 'model_type', type(config).__name__)}"
        )
    fields = config.to_dict()
    for name in ("model_type", "architectures"):
        fields.pop(name, None)
    return BidirectionalLlamaConfig(**fields)
