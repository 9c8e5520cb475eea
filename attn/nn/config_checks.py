"""The checks of a ``TransformerConfig``: names, kinds, contradictions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from attn import arguments
from attn.functional import validation as contract
from attn.nn import position_kinds, validation
from attn.nn.block import check_halves
from attn.nn.feed_forward import feed_forward_factory
from attn.nn.linear import state_layer_class
from attn.nn.norms import norm_factory

#: Fields without a default: either value would be silently wrong.
_REQUIRED = {
    "positions": (
        f"positions must be given, one of {position_kinds.POSITIONS} or an "
        "object; got nothing"
    ),
    "is_causal": (
        "is_causal must be given: True for a language model, False for an "
        "encoder; got nothing"
    ),
}


def names(given: Mapping[str, Any], known: list[str]) -> None:
    """Refuse unknown fields, suggesting one, and those left out."""
    for name in given.keys() - set(known):
        raise TypeError(
            "TransformerConfig must be given its own fields; got "
            f"{name!r}{arguments.suggestion(name, known)}"
        )
    for name, message in _REQUIRED.items():
        if given and name not in given:  # a copy is made of nothing at all
            raise TypeError(message)


def kind(f: dataclasses.Field[Any], x: Any) -> None:
    """Require an int, a bool or a positive number, as annotated."""
    kind, *others = str(f.type).split(" | ")
    if kind not in ("int", "bool", "float") or "Sequence" in str(f.type):
        return
    if x is None and "None" in others:
        return
    if kind == "int":
        arguments.count(f.name, x, f.metadata.get("least", 1))
    elif kind == "bool":
        arguments.flag(f.name, x)
    elif f.name == "dropout":
        arguments.number(f.name, x, 0)
    else:
        arguments.positive(f.name, x)


def parts(config: Any) -> None:
    """Require parts that make a model."""
    validation.sizes(
        config.embed_dim,
        config.num_heads,
        config.num_kv_heads or config.num_heads,
        config.head_dim,
    )
    if config.dropout > 1.0:
        raise ValueError(f"dropout must be 0 to 1; got {config.dropout}")
    check_halves(
        config.norm_order,
        config.feed_forward,
        self_attention=config.self_attention,
        cross_attention=config.cross_attention,
        memory_norm=config.memory_norm,
    )
    norm_factory(config.norm, config.norm_eps)
    feed_forward_factory(
        config.feed_forward, config.hidden_dim, config.ffn_bias
    )


def without_self_attention(config: Any) -> None:
    """Refuse what acts in self-attention alone, where there is none."""
    if config.self_attention:
        return
    if position_kinds.acts_in_attention(config.positions):
        raise ValueError(
            "positions must be added to the embeddings, or 'none', without "
            f"self_attention; got {config.positions!r}"
        )
    arguments.absent("without self_attention", window=config.window)


def layers_with_a_state(config: Any) -> None:
    """Refuse what a layer with a state cannot have, or all would ignore."""
    chosen = [config.attention]
    if is_each_layer("attention", config.attention):
        chosen = list(config.attention)
    stateful = [state_layer_class(x) is not None for x in chosen]
    if any(stateful) and not config.is_causal:
        raise ValueError(
            "is_causal must be True with a layer that has a state, which "
            "holds no later token; got False"
        )
    if any(stateful) and (config.cross_attention or not config.self_attention):
        raise ValueError(
            "self_attention must be True, and cross_attention False, with a "
            "layer that has a state, which reads no memory; got "
            f"{config.self_attention} and {config.cross_attention}"
        )
    if not all(stateful):
        return
    if position_kinds.acts_in_attention(config.positions):
        raise ValueError(
            "positions must be 'none', or added to the embeddings, where "
            "every layer has a state, in which order is known; got "
            f"{config.positions!r}"
        )
    for name in ("num_kv_heads", "window", "scale", "softcap", "qk_norm"):
        if value := getattr(config, name):
            raise ValueError(
                f"{name} must be left out where every layer has a state: it "
                f"is of softmax attention; got {value!r}"
            )


def is_each_layer(name: str, value: Any) -> bool:
    """Return whether a field has a value for each layer, not one for all.

    One window is itself a pair, of numbers and None.
    """
    if not isinstance(value, tuple | list):
        return False
    pairs = any(isinstance(x, tuple | list) for x in value)
    return name != "window" or pairs or len(value) != 2


def each_layer(config: Any, name: str) -> Any:
    """Return one checked value, or a tuple with one for each layer."""
    one = {"window": contract.window, "scale": _scale}.get(name, _attention)
    value = getattr(config, name)
    if not is_each_layer(name, value):
        return one(value)
    if len(value) != config.num_layers:
        raise ValueError(
            f"{name} must have one entry for each layer, {config.num_layers};"
            f" got {len(value)}"
        )
    parsed = tuple(map(one, value))
    return parsed if len(set(parsed)) > 1 else one(next(iter(value), None))


def _attention(attention: Any) -> Any:
    if not (isinstance(attention, str) or callable(attention)):
        raise TypeError(
            "attention must be the name of an implementation, or a class; got "
            f"{attention!r}"
        )
    return attention


def _scale(scale: Any) -> float | None:
    return None if scale is None else contract.scale(scale, 1)
