"""Attention with its projections, and whole models, which write text."""

from attn.nn.attention import MultiHeadAttention
from attn.nn.block import TransformerBlock
from attn.nn.config import TransformerConfig
from attn.nn.feed_forward import FeedForward, SwiGLU, gated_hidden_dim
from attn.nn.generation import generate
from attn.nn.models import gpt2_small, llama_style
from attn.nn.norms import BatchNorm, LayerNorm, RMSNorm
from attn.nn.recurrent import LSTM, RNN, CausalConv1d
from attn.nn.sampling import filter_logits, penalize_repetition
from attn.nn.transformer import Transformer

__all__ = [
    "LSTM",
    "RNN",
    "BatchNorm",
    "CausalConv1d",
    "FeedForward",
    "LayerNorm",
    "MultiHeadAttention",
    "RMSNorm",
    "SwiGLU",
    "Transformer",
    "TransformerBlock",
    "TransformerConfig",
    "filter_logits",
    "gated_hidden_dim",
    "generate",
    "gpt2_small",
    "llama_style",
    "penalize_repetition",
]
