"""GPT-2, GPT-NeoX and Bloom: layer norms, and one product for Q, K and V."""

from __future__ import annotations

import functools
from typing import Any

from attn.hf.config import Config
from attn.hf.reading import (
    DOWN,
    NORM_1,
    NORM_2,
    OUT,
    ROTARY,
    UP,
    Family,
    K,
    Q,
    V,
    activation,
    learned,
    rope,
)
from attn.hf.weights import Table, fused, thirds, transposed
from attn.nn import FeedForward, LayerNorm


def gpt2(c: Config) -> dict[str, Any]:
    """Learned positions, layer norms first."""
    c.only(add_cross_attention=False)
    c.ignore("attn_pdrop", "embd_pdrop", "resid_pdrop", "n_ctx")
    c.ignore(*(f"summary_{x}" for x in SUMMARY))
    c.ignore("reorder_and_upcast_attn")  # float32 softmax: ours always
    embed, layers = c("n_embd"), c("n_layer")
    scale = (embed // c("n_head")) ** -0.5 if c("scale_attn_weights") else 1.0
    by_layer = c("scale_attn_by_inverse_layer_idx")
    return {
        "vocab_size": c("vocab_size"),
        "embed_dim": embed,
        "num_layers": layers,
        "num_heads": c("n_head"),
        "positions": learned(c("n_positions"), embed),
        "feed_forward": functools.partial(
            FeedForward,
            hidden_dim=c("n_inner") or 4 * embed,
            activation=activation(c, "activation_function"),
        ),
        "norm_layer": functools.partial(
            LayerNorm, eps=c("layer_norm_epsilon")
        ),
        "is_causal": c("is_causal", True),
        "tied": c("tie_word_embeddings"),
        "each_layer": {
            "scale": [
                scale / (i + 1 if by_layer else 1) for i in range(layers)
            ]
        },
    }


SUMMARY = (
    "type",
    "use_proj",
    "activation",
    "proj_to_labels",
    "first_dropout",
)
GPT2: Table = {
    "wte": "token_embedding",
    "wpe": "positions",
    "h.*.ln_1": NORM_1,
    "h.*.attn.c_attn": thirds(Q, K, V),
    "h.*.attn.c_proj": transposed(OUT),
    "h.*.ln_2": NORM_2,
    "h.*.mlp.c_fc": transposed(UP),
    "h.*.mlp.c_proj": transposed(DOWN),
    "ln_f": "final_norm",
    "lm_head": "head",
}


def gpt_neox(c: Config) -> dict[str, Any]:
    """RoPE on a part of each head, both halves from the same input."""
    c.ignore("attention_dropout", "hidden_dropout", "classifier_dropout")
    c.ignore("is_decoder")
    embed, heads = c("hidden_size"), c("num_attention_heads")
    return {
        "vocab_size": c("vocab_size"),
        "embed_dim": embed,
        "num_layers": c("num_hidden_layers"),
        "num_heads": heads,
        "rope": rope(c, embed // heads, partial=True),
        "feed_forward": functools.partial(
            FeedForward,
            hidden_dim=c("intermediate_size"),
            activation=activation(c, "hidden_act"),
        ),
        "norm_layer": functools.partial(LayerNorm, eps=c("layer_norm_eps")),
        "parallel": c("use_parallel_residual"),
        "bias": c("attention_bias"),
        "is_causal": c("is_causal", True),
        "tied": c("tie_word_embeddings"),
        "each_layer": {},
    }


GPT_NEOX: Table = {
    "embed_in": "token_embedding",
    "layers.*.input_layernorm": NORM_1,
    "layers.*.attention.query_key_value": fused(Q, K, V),
    "layers.*.attention.dense": OUT,
    "layers.*.post_attention_layernorm": NORM_2,
    "layers.*.mlp.dense_h_to_4h": UP,
    "layers.*.mlp.dense_4h_to_h": DOWN,
    "final_layer_norm": "final_norm",
    "lm_head": "head",
}


def bloom(c: Config) -> dict[str, Any]:
    """ALiBi, and a norm after the embeddings."""
    c.only(apply_residual_connection_post_layernorm=False)
    if c("pretraining_tp", 1) > 1:
        c.only(slow_but_exact=False)  # it drops a bias
    c.ignore("slow_but_exact", "attention_dropout", "hidden_dropout")
    c.ignore(*TRAINING)
    embed = c("hidden_size")
    return {
        "vocab_size": c("vocab_size"),
        "embed_dim": embed,
        "num_layers": c("n_layer"),
        "num_heads": c("n_head"),
        "alibi": True,
        "embed_norm": True,
        "feed_forward": functools.partial(FeedForward, activation="gelu_tanh"),
        "norm_layer": functools.partial(
            LayerNorm, eps=c("layer_norm_epsilon")
        ),
        "is_causal": c("is_causal", True),
        "tied": c("tie_word_embeddings"),
        "each_layer": {},
    }


# What published files say about how they were trained.
TRAINING = (
    "attention_softmax_in_fp32",
    "bias_dropout_fusion",
    "masked_softmax_fusion",
    "n_inner",
    "offset_alibi",
    "seq_length",
    "skip_bias_add",
    "skip_bias_add_qkv",
)
BLOOM: Table = {
    "word_embeddings": "token_embedding",
    "word_embeddings_layernorm": "embed_norm",
    "h.*.input_layernorm": NORM_1,
    "h.*.self_attention.query_key_value": fused(Q, K, V),
    "h.*.self_attention.dense": OUT,
    "h.*.post_attention_layernorm": NORM_2,
    "h.*.mlp.dense_h_to_4h": UP,
    "h.*.mlp.dense_4h_to_h": DOWN,
    "ln_f": "final_norm",
    "lm_head": "head",
}

FAMILIES = {
    "gpt2": Family(
        gpt2, GPT2, "transformer.", buffers=(".attn.bias", ".attn.masked_bias")
    ),
    "gpt_neox": Family(
        gpt_neox,
        GPT_NEOX,
        "gpt_neox.",
        buffers=(*ROTARY, ".attention.bias", ".attention.masked_bias"),
    ),
    "bloom": Family(bloom, BLOOM, "transformer."),
}
