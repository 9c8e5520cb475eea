"""Llama and its relatives: RoPE, norms first, grouped heads."""

from __future__ import annotations

import functools
from typing import Any

import torch

from attn.hf.config import Config
from attn.hf.reading import (
    DOWN,
    GATE,
    NORM_1,
    NORM_2,
    OUT,
    POST_1,
    POST_2,
    ROTARY,
    UP,
    Family,
    K,
    Q,
    V,
    activation,
    rope,
    windows,
)
from attn.hf.weights import Table, plus_one, stacked
from attn.nn import FeedForward, LayerNorm, RMSNorm, SwiGLU
from attn.nn.block import LayerFactory


def llama_like(
    c: Config,
    hidden_act: str = "hidden_act",
    norm_layer: LayerFactory | None = None,
    partial: bool = False,
) -> dict[str, Any]:
    """RoPE (on a part of each head), RMSNorm first, SwiGLU, grouped heads."""
    c.ignore("attention_dropout", "pretraining_tp")
    embed, heads = c("hidden_size"), c("num_attention_heads")
    head_dim = c("head_dim", None) or embed // heads
    return {
        "vocab_size": c("vocab_size"),
        "embed_dim": embed,
        "num_layers": c("num_hidden_layers"),
        "num_heads": heads,
        "num_kv_heads": c("num_key_value_heads") or heads,
        "head_dim": head_dim,
        "rope": rope(c, head_dim, partial),
        "feed_forward": functools.partial(
            SwiGLU,
            hidden_dim=c("intermediate_size"),
            activation=activation(c, hidden_act),
            bias=c("mlp_bias", False),
        ),
        "norm_layer": norm_layer
        or functools.partial(RMSNorm, eps=c("rms_norm_eps")),
        "bias": c("attention_bias", False),
        "is_causal": c("is_causal", True),
        "tied": c("tie_word_embeddings"),
        "each_layer": {},
    }


def qwen2(c: Config) -> dict[str, Any]:
    """A Llama whose queries, keys and values have a bias."""
    c.ignore("use_sliding_window", "max_window_layers")  # in layer_types
    return llama_like(c) | {
        "bias": True,
        "out_bias": False,
        "each_layer": {"window": windows(c, c("layer_types"))},
    }


def qwen3(c: Config) -> dict[str, Any]:
    """A Llama that normalises queries and keys."""
    c.ignore("use_sliding_window", "max_window_layers")  # in layer_types
    return llama_like(c) | {
        "qk_norm": True,
        "norm_eps": c("rms_norm_eps"),
        "each_layer": {"window": windows(c, c("layer_types"))},
    }


def mistral(c: Config, **others: Any) -> dict[str, Any]:
    """A Llama that looks back no further than its window."""
    kind = "full" if c("sliding_window") is None else "sliding"
    kinds = [f"{kind}_attention"] * c("num_hidden_layers")
    return llama_like(c, **others) | {
        "each_layer": {"window": windows(c, kinds)}
    }


def phi3(c: Config) -> dict[str, Any]:
    """A Mistral in fewer pieces, of which a part of each head may turn."""
    c.ignore("resid_pdrop", "embd_pdrop")
    c.ignore("original_max_position_embeddings")  # in rope_parameters
    return mistral(c, partial=True)


def starcoder2(c: Config) -> dict[str, Any]:
    """A Mistral with layer norms, biases and a plain feed-forward."""
    c.ignore("residual_dropout", "embedding_dropout")
    bias = c("use_bias")
    norm_layer = functools.partial(LayerNorm, eps=c("norm_epsilon"))
    return mistral(c, norm_layer=norm_layer) | {
        "feed_forward": functools.partial(
            FeedForward,
            hidden_dim=c("intermediate_size"),
            activation=activation(c, "hidden_act"),
            bias=bias,
        ),
        "bias": bias,
    }


def stablelm(c: Config) -> dict[str, Any]:
    """Layer norms, and a part of each head turns."""
    c.ignore("hidden_dropout")
    c.only(qk_layernorm=False, use_parallel_residual=False)
    norm_layer = functools.partial(LayerNorm, eps=c("layer_norm_eps"))
    return llama_like(c, norm_layer=norm_layer, partial=True) | {
        "bias": c("use_qkv_bias"),
        "out_bias": False,
    }


def gemma(c: Config, hidden_act: str = "hidden_act") -> dict[str, Any]:
    """Large embeddings, wide heads, and norms that start at 1 + 0."""
    c.only(use_bidirectional_attention=None)
    return llama_like(c, hidden_act) | {
        # transformers keeps it in float32, whatever the model's dtype.
        "embed_scale": float(torch.tensor(c("hidden_size") ** 0.5)),
    }


def gemma2(c: Config) -> dict[str, Any]:
    """Norms before and after, softcaps, every other layer a window."""
    c.ignore("hidden_act")  # in published files; hidden_activation is read
    return gemma(c, "hidden_activation") | {
        "norm": "sandwich",
        "scale": c("query_pre_attn_scalar") ** -0.5,
        "softcap": c("attn_logit_softcapping"),
        "final_softcap": c("final_logit_softcapping"),
        "each_layer": {"window": windows(c, c("layer_types"))},
    }


COMMON: Table = {
    "embed_tokens": "token_embedding",
    "layers.*.input_layernorm": NORM_1,
    "layers.*.self_attn.o_proj": OUT,
    "layers.*.post_attention_layernorm": NORM_2,
    "norm": "final_norm",
    "lm_head": "head",
}
QKV: Table = {
    "layers.*.self_attn.q_proj": Q,
    "layers.*.self_attn.k_proj": K,
    "layers.*.self_attn.v_proj": V,
}
LLAMA: Table = {
    **COMMON,
    **QKV,
    "layers.*.mlp.gate_proj": GATE,
    "layers.*.mlp.up_proj": UP,
    "layers.*.mlp.down_proj": DOWN,
}
QWEN3: Table = {
    **LLAMA,
    "layers.*.self_attn.q_norm": "blocks.*.attention.q_norm",
    "layers.*.self_attn.k_norm": "blocks.*.attention.k_norm",
}
# Gemma's norms multiply by 1 + w; the second norm has another name.
GEMMA2: Table = {
    **LLAMA,
    "layers.*.input_layernorm": plus_one(NORM_1),
    "layers.*.post_attention_layernorm": plus_one(POST_1),
    "layers.*.pre_feedforward_layernorm": plus_one(NORM_2),
    "layers.*.post_feedforward_layernorm": plus_one(POST_2),
    "norm": plus_one("final_norm"),
}
GEMMA: Table = {
    **LLAMA,
    "layers.*.input_layernorm": plus_one(NORM_1),
    "layers.*.post_attention_layernorm": plus_one(NORM_2),
    "norm": plus_one("final_norm"),
}
PHI3: Table = {
    **COMMON,
    "layers.*.self_attn.qkv_proj": stacked(Q, K, V),
    "layers.*.mlp.gate_up_proj": stacked(GATE, UP),
    "layers.*.mlp.down_proj": DOWN,
}
STARCODER2: Table = {
    **COMMON,
    **QKV,
    "layers.*.mlp.c_fc": UP,
    "layers.*.mlp.c_proj": DOWN,
}

FAMILIES = {
    "llama": Family(llama_like, LLAMA, "model.", buffers=ROTARY),
    "mistral": Family(mistral, LLAMA, "model.", buffers=ROTARY),
    "qwen2": Family(qwen2, LLAMA, "model.", buffers=ROTARY),
    "qwen3": Family(qwen3, QWEN3, "model.", buffers=ROTARY),
    "phi3": Family(phi3, PHI3, "model.", buffers=ROTARY),
    "starcoder2": Family(starcoder2, STARCODER2, "model.", buffers=ROTARY),
    "stablelm": Family(stablelm, LLAMA, "model.", buffers=ROTARY),
    "gemma": Family(gemma, GEMMA, "model.", buffers=ROTARY),
    "gemma2": Family(gemma2, GEMMA2, "model.", buffers=ROTARY),
}
