"""Build a model's blocks of its configuration, and draw its weights."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from attn.nn.attention import MultiHeadAttention
from attn.nn.block import TransformerBlock
from attn.nn.config import TransformerConfig
from attn.nn.linear import state_layer_class

INIT_STD = 0.02  # of every weight, as in GPT-2
# The weights whose output is added to the residual stream.
ADDED = ("out_proj.weight", "o_proj.weight", "down_proj.weight")
# Parameters that a layer has drawn itself: they are no matrices.
DRAWN = ("conv_weight", "dt_bias", "A_log")


def make_block(
    config: TransformerConfig,
    layer: int,
    *,
    rope: nn.Module | None,
    alibi: bool,
) -> TransformerBlock:
    """Return a block; only what is given reaches the class of attention."""
    fields = dataclasses.fields(config)
    given = {f.name: config.of_layer(f.name, layer) for f in fields}
    block = inspect.signature(TransformerBlock).parameters
    own = inspect.signature(MultiHeadAttention).parameters
    options = {k: x for k, x in given.items() if k in own and k not in block}
    options |= {"rope": rope, "alibi": alibi}
    options = {k: x for k, x in options.items() if x != own[k].default}
    given = {k: x for k, x in given.items() if k in block}
    attention = given["attention"]
    if cls := state_layer_class(attention):
        given["attention"], options = _state_layer(attention, cls, options)
    return TransformerBlock(**given, **options)


def _state_layer(
    attention: Any, cls: type[nn.Module], options: dict[str, Any]
) -> tuple[Callable[..., nn.Module], dict[str, Any]]:
    """Return what makes a layer with a state, and the options it takes.

    Of a hybrid's fields, most are about its layers of softmax attention. What
    ``functools.partial`` binds comes before the configuration's.
    """
    bound = getattr(attention, "keywords", {})
    known = inspect.signature(cls).parameters.keys() - bound.keys()

    def make(embed_dim: int, num_heads: int, **given: Any) -> nn.Module:
        return cls(embed_dim, **{"num_heads": num_heads, **given, **bound})

    return make, {name: x for name, x in options.items() if name in known}


@torch.no_grad()
def init_weights(model: nn.Module) -> None:
    """Draw GPT-2's initial weights.

    Those whose output is added to the residual stream are scaled down by the
    number of additions, so that its size does not grow with depth.
    """
    parameters = dict(model.named_parameters())
    added = [name for name in parameters if name.endswith(ADDED)]
    for name, x in parameters.items():
        if x.is_meta:
            continue  # nothing to draw, and torch takes its time over it
        if name.startswith("positions."):
            continue  # they draw their own, or were given
        if name.endswith(DRAWN):
            continue
        if x.dim() > 1:
            scale = len(added) ** -0.5 if name in added else 1.0
            nn.init.normal_(x, std=INIT_STD * scale)
        elif name.endswith("bias"):
            x.zero_()
