"""Llama and its relatives: RoPE, pre-norm layers, grouped heads."""

from __future__ import annotations

from typing import Any

import torch

from attn.hf import config_fields as fields
from attn.hf import names
from attn.hf.config_fields import Config, Family
from attn.hf.weights import Table, plus_one, stacked


def llama(
    c: Config,
    hidden_act: str = "hidden_act",
    norm: dict[str, Any] | None = None,
    partial: bool = False,
) -> dict[str, Any]:
    """Read Llama: RoPE (on a part of each head), RMSNorm, SwiGLU."""
    c.ignore("attention_dropout", "pretraining_tp")
    read = fields.decoder(c)
    num_heads = read["num_heads"]
    head_dim = c("head_dim", None) or read["embed_dim"] // num_heads
    read |= norm or {"norm": "rms", "norm_eps": c("rms_norm_eps")}
    read |= fields.feed_forward(c, hidden_act, is_gated=True)
    return read | {
        "num_kv_heads": c("num_key_value_heads") or num_heads,
        "head_dim": head_dim,
        "positions": fields.rope(c, head_dim, partial),
        "bias": c("attention_bias", False),
        "ffn_bias": c("mlp_bias", False),
    }


def qwen2(c: Config) -> dict[str, Any]:
    """Read Qwen2: Llama with a bias for queries, keys and values."""
    c.ignore("use_sliding_window", "max_window_layers")  # in layer_types
    return llama(c) | {
        "bias": True,
        "out_bias": False,
        "window": fields.windows(c, c("layer_types")),
    }


def qwen3(c: Config) -> dict[str, Any]:
    """Read Qwen3: Llama with normalised queries and keys."""
    c.ignore("use_sliding_window", "max_window_layers")  # in layer_types
    return llama(c) | {
        "qk_norm": True,
        "window": fields.windows(c, c("layer_types")),
    }


def mistral(c: Config, **kwargs: Any) -> dict[str, Any]:
    """Read Mistral: Llama with a sliding window in every layer."""
    kind = "full" if c("sliding_window") is None else "sliding"
    layer_types = [f"{kind}_attention"] * c("num_hidden_layers")
    return llama(c, **kwargs) | {"window": fields.windows(c, layer_types)}


def phi3(c: Config) -> dict[str, Any]:
    """Read Phi-3: Mistral with packed weights and partial RoPE."""
    c.ignore("resid_pdrop", "embd_pdrop")
    c.ignore("original_max_position_embeddings")  # in rope_parameters
    return mistral(c, partial=True)


def starcoder2(c: Config) -> dict[str, Any]:
    """Read StarCoder2: Mistral with layer norms, biases and no gate."""
    c.ignore("residual_dropout", "embedding_dropout")
    read = mistral(c, norm=fields.layer_norm(c, "norm_epsilon"))
    bias = {"bias": c("use_bias"), "ffn_bias": c("use_bias")}
    return read | fields.feed_forward(c) | bias


def stablelm(c: Config) -> dict[str, Any]:
    """Read StableLM: Llama with layer norms and partial RoPE."""
    c.ignore("hidden_dropout")
    c.require(qk_layernorm=False, use_parallel_residual=False)
    return llama(c, norm=fields.layer_norm(c), partial=True) | {
        "bias": c("use_qkv_bias"),
        "out_bias": False,
    }


def gemma(c: Config, hidden_act: str = "hidden_act") -> dict[str, Any]:
    """Read Gemma: Llama with scaled embeddings and wide heads."""
    c.require(use_bidirectional_attention=None)
    return llama(c, hidden_act) | {
        # transformers keeps it in float32, whatever the model's dtype.
        "embed_scale": float(torch.tensor(c("hidden_size") ** 0.5)),
    }


def gemma2(c: Config) -> dict[str, Any]:
    """Read Gemma 2: norms before and after, softcaps, alternate windows."""
    c.ignore("hidden_act")  # in published files; hidden_activation is read
    return gemma(c, "hidden_activation") | {
        "norm_order": "sandwich",
        "scale": c("query_pre_attn_scalar") ** -0.5,
        "softcap": c("attn_logit_softcapping"),
        "final_softcap": c("final_logit_softcapping"),
        "window": fields.windows(c, c("layer_types")),
    }


COMMON: Table = {
    "embed_tokens": names.EMBED,
    "layers.*.input_layernorm": names.NORM_1,
    "layers.*.self_attn.o_proj": names.OUT,
    "layers.*.post_attention_layernorm": names.NORM_2,
    "norm": names.FINAL_NORM,
    "lm_head": names.HEAD,
}
QKV: Table = {
    "layers.*.self_attn.q_proj": names.Q,
    "layers.*.self_attn.k_proj": names.K,
    "layers.*.self_attn.v_proj": names.V,
}
LLAMA: Table = {
    **COMMON,
    **QKV,
    "layers.*.self_attn.q_norm": names.Q_NORM,  # Qwen3
    "layers.*.self_attn.k_norm": names.K_NORM,
    "layers.*.mlp.gate_proj": names.GATE,
    "layers.*.mlp.up_proj": names.UP,
    "layers.*.mlp.down_proj": names.DOWN,
}
GEMMA: Table = {
    **LLAMA,
    "layers.*.input_layernorm": plus_one(names.NORM_1),
    "layers.*.post_attention_layernorm": plus_one(names.NORM_2),
    "norm": plus_one(names.FINAL_NORM),
}
GEMMA2: Table = {
    **GEMMA,
    "layers.*.post_attention_layernorm": plus_one(names.POST_1),
    "layers.*.pre_feedforward_layernorm": plus_one(names.NORM_2),
    "layers.*.post_feedforward_layernorm": plus_one(names.POST_2),
}
PHI3: Table = {
    **COMMON,
    "layers.*.self_attn.qkv_proj": stacked(*names.QKV),
    "layers.*.mlp.gate_up_proj": stacked(names.GATE, names.UP),
    "layers.*.mlp.down_proj": names.DOWN,
}
STARCODER2: Table = {
    **COMMON,
    **QKV,
    "layers.*.mlp.c_fc": names.UP,
    "layers.*.mlp.c_proj": names.DOWN,
}

ROTARY = (".rotary_emb.inv_freq",)  # stored by old checkpoints
FAMILIES = {
    "llama": Family(llama, LLAMA, buffers=ROTARY),
    "mistral": Family(mistral, LLAMA, buffers=ROTARY),
    "qwen2": Family(qwen2, LLAMA, buffers=ROTARY),
    "qwen3": Family(qwen3, LLAMA, buffers=ROTARY),
    "phi3": Family(phi3, PHI3, buffers=ROTARY),
    "starcoder2": Family(starcoder2, STARCODER2, buffers=ROTARY),
    "stablelm": Family(stablelm, LLAMA, buffers=ROTARY),
    "gemma": Family(gemma, GEMMA, buffers=ROTARY),
    "gemma2": Family(gemma2, GEMMA2, buffers=ROTARY),
}
