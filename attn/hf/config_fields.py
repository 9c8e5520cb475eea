"""Read the fields of a configuration of transformers.

A field that is never read may change the model, so it is an error: each
family names the fields it uses, those it supports at one value only, and
those that cannot change what a model computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

from attn.functional.validation import Window
from attn.hf.weights import Table
from attn.nn import Transformer
from attn.nn.feed_forward import GATED
from attn.positions import Rope

# Fields of every configuration that no forward pass here depends on.
_METADATA = {
    "_model_name_or_path",
    "_name_or_path",
    "architectures",
    "auto_map",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "dtype",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "initializer_range",
    "label2id",
    "model_type",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "problem_type",
    "return_dict",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "transformers_version",
    "unk_token_id",
    "use_cache",
}
#: The way out of a configuration that is not supported.
INSTEAD = "attn.hf.attach(model) runs the model's own code instead"


class Config:
    """A configuration and the set of its fields that have been read.

    Args:
        config: a ``PreTrainedConfig``, or the mapping in a ``config.json``.
    """

    def __init__(self, config: Any):
        if isinstance(config, Mapping):
            fields = dict(config)
        elif hasattr(config, "to_dict"):
            fields = {"model_type": config.model_type, **config.to_dict()}
        else:
            raise TypeError(
                "config must be a transformers configuration or the mapping "
                f"in config.json; got {type(config).__name__}"
            )
        if "model_type" not in fields:
            raise ValueError("config must have a model_type; got none")
        self.family: str = fields["model_type"]
        self._fields = {k: v for k, v in fields.items() if k not in _METADATA}
        self._read: set[str] = set()

    def __call__(self, name: str, *default: Any) -> Any:
        """Return a field that changes the model."""
        self._read.add(name)
        if name not in self._fields and not default:
            raise ValueError(
                f"config must have {name} for a {self.family} model; got none"
            )
        return self._fields.get(name, *default)

    def require(self, **supported: Any) -> None:
        """Raise for a field that is present with another value."""
        for name, value in supported.items():
            if self(name, value) != value:
                self.refuse(name, repr(value))

    def ignore(self, *names: str) -> None:
        """Mark fields that change nothing in evaluation mode as read."""
        self._read.update(names)

    def refuse(self, name: str, need: str) -> NoReturn:
        """Raise for the value of a field."""
        raise NotImplementedError(
            f"config.{name} must be {need} for attn's {self.family}; got "
            f"{self._fields[name]!r}. {INSTEAD}"
        )

    def refuse_unread(self) -> None:
        """Raise for every field that is set and has not been read."""
        unread = [
            f"{name}={value!r}"
            for name, value in sorted(self._fields.items())
            if name not in self._read and value not in (None, False)
        ]
        if unread:
            raise NotImplementedError(
                f"config must have only fields that attn's {self.family} "
                f"supports; got {', '.join(unread)}. {INSTEAD}"
            )


class Family(NamedTuple):
    """The conversion of one family: fields, weights and optional parts."""

    # To the fields of a TransformerConfig.
    fields: Callable[[Config], dict[str, Any]]
    table: Table
    embedding: str = "embed_tokens.weight"
    prefix: str = "model."  # of the body's names in a model with a head
    make: Any = Transformer  # with from_config
    head: str = "lm_head.weight"
    # Optional parts, each with the weight whose presence shows it.
    parts: dict[str, str] = {"head": "lm_head.weight"}
    buffers: tuple[str, ...] = ()  # endings of what is not a weight


def decoder(
    c: Config,
    embed_dim: str = "hidden_size",
    num_layers: str = "num_hidden_layers",
    num_heads: str = "num_attention_heads",
) -> dict[str, Any]:
    """Return the fields of every decoder, given their names."""
    return {
        "vocab_size": c("vocab_size"),
        "embed_dim": c(embed_dim),
        "num_layers": c(num_layers),
        "num_heads": c(num_heads),
        "is_causal": c("is_causal", True),
        "tied": c("tie_word_embeddings"),
    }


def feed_forward(
    c: Config, field: str = "hidden_act", *, is_gated: bool = False
) -> dict[str, Any]:
    """Return the fields of a feed-forward, given that of its activation."""
    name = activation(c, field)
    if is_gated:
        name = {gate: gated for gated, gate in GATED.items()}[name]
    return {"feed_forward": name, "hidden_dim": c("intermediate_size")}


def layer_norm(c: Config, eps: str = "layer_norm_eps") -> dict[str, Any]:
    """Return the fields of a layer norm, given that of its epsilon."""
    return {"norm": "layer", "norm_eps": c(eps)}


def activation(c: Config, field: str) -> str:
    """Return the name of an activation in ``attn.nn``."""
    name = c(field)
    if name not in ACTIVATIONS:
        c.refuse(field, f"one of {list(ACTIVATIONS)}")
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


def rope(c: Config, head_dim: int, partial: bool = False) -> Rope:
    """Convert ``rope_parameters``; ``partial`` allows unrotated elements."""
    kwargs = {k: v for k, v in c("rope_parameters").items() if v is not None}
    old_name = kwargs.pop("type", "default")
    rope_type = kwargs.pop("rope_type", old_name)
    partial = partial or rope_type == "proportional"
    if not partial and kwargs.get("partial_rotary_factor", 1.0) != 1.0:
        c.refuse("rope_parameters", "with a partial_rotary_factor of 1.0")
    try:
        return Rope(
            head_dim,
            float(kwargs.pop("rope_theta")),
            rope_type,
            max_position_embeddings=c("max_position_embeddings"),
            **kwargs,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NotImplementedError(
            "config.rope_parameters must be valid for attn.positions.Rope; "
            f"got {c('rope_parameters')} ({error})"
        ) from error


def windows(c: Config, layer_types: list[str]) -> list[Window | None]:
    """Return the window of each layer.

    ``sliding_window`` counts the token itself in causal models only.
    """
    size, is_causal = c("sliding_window"), c("is_causal", True)
    supported: dict[str, Window | None] = {"full_attention": None}
    if size is not None:
        sliding = (size - 1, None) if is_causal else (size, size)
        supported["sliding_attention"] = sliding
    if not set(layer_types) <= supported.keys():
        c.refuse("layer_types", f"from {list(supported)}")
    return [supported[x] for x in layer_types]
