"""Attention with its projections, and whole models made of few parts."""

from attn.nn.attention import MultiHeadAttention
from attn.nn.feed_forward import FeedForward, SwiGLU, gated_hidden_dim
from attn.nn.norms import BatchNorm, LayerNorm, RMSNorm

__all__ = [
    "BatchNorm",
    "FeedForward",
    "LayerNorm",
    "MultiHeadAttention",
    "RMSNorm",
    "SwiGLU",
    "gated_hidden_dim",
]
