"""Attention with its projections, and whole models, which write text."""

from attn.nn.attention import MultiHeadAttention
from attn.nn.block import TransformerBlock
from attn.nn.compressor import KeyCompressor
from attn.nn.config import TransformerConfig
from attn.nn.feed_forward import FeedForward, SwiGLU, gated_hidden_dim
from attn.nn.generation import generate
from attn.nn.indexer import LightningIndexer
from attn.nn.latent import LatentAttention
from attn.nn.linear import GatedDeltaNet, LinearAttention
from attn.nn.models import gpt2_small, llama_style
from attn.nn.norms import BatchNorm, LayerNorm, RMSNorm
from attn.nn.recurrent import LSTM, RNN, CausalConv1d
from attn.nn.sampling import filter_logits, penalize_repetition
from attn.nn.state_layer import StateLayer
from attn.nn.transformer import Transformer

__all__ = [
    "MultiHeadAttention",
    "LatentAttention",
    "LightningIndexer",
    "KeyCompressor",
    "TransformerBlock",
    "Transformer",
    "TransformerConfig",
    "gpt2_small",
    "llama_style",
    "generate",
    "filter_logits",
    "penalize_repetition",
    "LayerNorm",
    "RMSNorm",
    "BatchNorm",
    "FeedForward",
    "SwiGLU",
    "gated_hidden_dim",
    "RNN",
    "LSTM",
    "CausalConv1d",
    "LinearAttention",
    "GatedDeltaNet",
    "StateLayer",
]
