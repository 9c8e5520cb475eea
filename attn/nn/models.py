"""The configurations of two well-known models."""

from __future__ import annotations

from typing import Any

from attn import arguments
from attn.nn.config import TransformerConfig
from attn.nn.feed_forward import GATED, gated_hidden_dim


def gpt2_small(**overrides: Any) -> TransformerConfig:
    """Configure GPT-2 of 124,439,808 parameters.

    Learned positions, layer norms first, GELU by tanh, a tied head. The
    original training has a ``dropout`` of 0.1.

    Args:
        overrides: fields of ``TransformerConfig`` in the place of its own.

    Example:
        >>> small = attn.gpt2_small(num_layers=2, positions="alibi")
        >>> small.embed_dim
        768

    Source: Radford et al. 2019; transformers ``GPT2Config``.
    """
    fields: dict[str, Any] = {
        "vocab_size": 50257,
        "embed_dim": 768,
        "num_layers": 12,
        "num_heads": 12,
        "positions": "learned",
        "max_positions": 1024,
        "is_causal": True,
        "feed_forward": "gelu_tanh",
        "packed": True,
    }
    return TransformerConfig(**{**fields, **overrides})


def llama_style(**overrides: Any) -> TransformerConfig:
    """Configure a Llama: RoPE, RMSNorm, SwiGLU, grouped heads, no biases.

    Args:
        overrides: fields of ``TransformerConfig`` in the place of its own.
            ``hidden_dim`` is ``8 * E / 3`` rounded up to a multiple of 256
            unless given, as in Llama 2; ``norm_eps`` is 1e-5 for a norm that
            is given by name; another base of the rotation is
            ``positions={"rope": {"base": 5e5}}``.

    Example:
        >>> config = attn.llama_style(
        ...     vocab_size=32000, embed_dim=4096, num_layers=32, num_heads=32,
        ... )
        >>> config.norm, config.feed_forward, config.hidden_dim  # Llama 2, 7B
        ('rms', 'swiglu', 11008)

    Source: Touvron et al. 2023; transformers ``LlamaConfig``.
    """
    fields: dict[str, Any] = {
        "vocab_size": 32000,
        "embed_dim": 768,
        "num_layers": 12,
        "num_heads": 12,
        "num_kv_heads": 4,
        "positions": "rope",
        "is_causal": True,
        "feed_forward": "swiglu",
        "norm": "rms",
        "bias": False,
        "tied": False,
    }
    fields |= overrides
    if isinstance(fields["norm"], str):
        fields.setdefault("norm_eps", 1e-5)
    arguments.count("embed_dim", fields["embed_dim"])
    if fields["feed_forward"] in GATED and "hidden_dim" not in fields:
        hidden_dim = gated_hidden_dim(fields["embed_dim"], multiple_of=256)
        fields["hidden_dim"] = hidden_dim
    return TransformerConfig(**fields)
