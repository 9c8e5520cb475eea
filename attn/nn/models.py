"""Two well-known models, built from the same parts."""

from __future__ import annotations

import functools
from typing import Any

from attn.nn.feed_forward import FeedForward, SwiGLU, gated_hidden_dim
from attn.nn.norms import RMSNorm
from attn.nn.transformer import Transformer
from attn.positions import LearnedPositions, Rope


def gpt2_small(dropout: float = 0.0) -> Transformer:
    """Build GPT-2 of 124,439,808 parameters, with new weights.

    Learned positions, layer norms first, GELU by tanh, a tied head. Under
    ``with torch.device("meta"):`` it takes no memory. The original training
    has a ``dropout`` of 0.1.

    Source: Radford et al. 2019; transformers ``GPT2Config``.
    """
    return Transformer(
        vocab_size=50257,
        embed_dim=768,
        num_layers=12,
        num_heads=12,
        positions=LearnedPositions(1024, 768),
        feed_forward=functools.partial(FeedForward, activation="gelu_tanh"),
        packed=True,
        dropout=dropout,
    )


def llama_style(
    vocab_size: int = 32000,
    embed_dim: int = 768,
    num_layers: int = 12,
    num_heads: int = 12,
    num_kv_heads: int = 4,
    *,
    head_dim: int | None = None,
    hidden_dim: int | None = None,
    base: float = 10000.0,
    eps: float = 1e-5,
    rope: Rope | None = None,
    tied: bool = False,
    **options: Any,
) -> Transformer:
    """Build a Llama: RoPE, RMSNorm, SwiGLU, grouped heads, no biases.

    Args:
        vocab_size, embed_dim, num_layers: ``V``, ``E``, layers.
        num_heads, num_kv_heads, head_dim: ``H``, ``Hkv``, ``D``.
        hidden_dim: of the SwiGLU; ``8 * E / 3`` rounded up to a multiple
            of 256 when None, as in Llama 2.
        base, rope: of the default RoPE, and one that replaces it.
        eps: of the norms.
        tied, options: arguments of ``Transformer``.

    Source: Touvron et al. 2023; transformers ``LlamaConfig``.
    """
    if hidden_dim is None:
        hidden_dim = gated_hidden_dim(embed_dim, multiple_of=256)
    head_dim = embed_dim // num_heads if head_dim is None else head_dim
    return Transformer(
        vocab_size,
        embed_dim,
        num_layers,
        num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        rope=Rope(head_dim, base) if rope is None else rope,
        feed_forward=functools.partial(SwiGLU, hidden_dim=hidden_dim),
        norm_layer=functools.partial(RMSNorm, eps=eps),
        bias=False,
        tied=tied,
        **options,
    )
