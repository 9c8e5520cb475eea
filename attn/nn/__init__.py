"""Attention with its projections, and whole models built from few parts."""

from attn.nn.attention import MultiHeadAttention
from attn.nn.block import TransformerBlock
from attn.nn.feed_forward import FeedForward, SwiGLU, gated_hidden_dim
from attn.nn.models import gpt2_small, llama_style
from attn.nn.norms import BatchNorm, LayerNorm, RMSNorm
from attn.nn.transformer import Transformer

__all__ = [
    "BatchNorm",
    "FeedForward",
    "LayerNorm",
    "MultiHeadAttention",
    "RMSNorm",
    "SwiGLU",
    "Transformer",
    "TransformerBlock",
    "gated_hidden_dim",
    "gpt2_small",
    "llama_style",
]
