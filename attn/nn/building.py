"""Build a model's blocks of its configuration, and draw its weights."""

from __future__ import annotations

import inspect

import torch
from torch import nn

from attn.nn.attention import MultiHeadAttention
from attn.nn.block import TransformerBlock
from attn.nn.config import TransformerConfig

INIT_STD = 0.02  # of every weight, as in GPT-2
# The weights whose output is added to the residual stream.
ADDED = ("out_proj.weight", "down_proj.weight")
# The fields of a configuration that a block takes, and its attention.
BLOCK_OPTIONS = (
    "norm_order",
    "norm",
    "norm_eps",
    "feed_forward",
    "hidden_dim",
    "ffn_bias",
    "self_attention",
    "cross_attention",
    "memory_norm",
    "dropout",
    "attention",
)
ATTENTION_OPTIONS = (
    "num_kv_heads",
    "head_dim",
    "value_dim",
    "is_causal",
    "softcap",
    "qk_norm",
    "packed",
    "bias",
    "out_bias",
)


def make_block(
    config: TransformerConfig,
    layer: int,
    *,
    rope: nn.Module | None,
    alibi: bool,
) -> TransformerBlock:
    """Return a block; only what is given reaches the class of attention."""
    options = {name: getattr(config, name) for name in ATTENTION_OPTIONS}
    options |= {"rope": rope, "alibi": alibi}
    for name in ("window", "scale"):
        options[name] = config.of_layer(name, layer)
    default = inspect.signature(MultiHeadAttention).parameters
    options = {
        name: x for name, x in options.items() if x != default[name].default
    }
    return TransformerBlock(
        config.embed_dim,
        config.num_heads,
        **{name: getattr(config, name) for name in BLOCK_OPTIONS},
        **options,
    )


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
        if x.dim() > 1:
            scale = len(added) ** -0.5 if name in added else 1.0
            nn.init.normal_(x, std=INIT_STD * scale)
        elif name.endswith("bias"):
            x.zero_()
