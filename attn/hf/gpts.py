"""GPT-2, GPT-NeoX and Bloom: layer norms, and one projection for Q, K, V."""

from __future__ import annotations

from typing import Any

from attn.hf import config_fields as fields
from attn.hf import names
from attn.hf.config_fields import Config, Family
from attn.hf.weights import Table, qkv_by_head, transposed


def gpt2(c: Config) -> dict[str, Any]:
    """Read GPT-2: learned positions, pre-norm layers."""
    c.require(add_cross_attention=False)
    c.ignore("attn_pdrop", "embd_pdrop", "resid_pdrop", "n_ctx")
    c.ignore("summary_type", "summary_use_proj", "summary_activation")
    c.ignore("summary_proj_to_labels", "summary_first_dropout")
    c.ignore("reorder_and_upcast_attn")  # attn's softmax is always float32
    read = fields.decoder(c, "n_embd", "n_layer", "n_head")
    head_dim = c("n_embd") // c("n_head")
    scale = head_dim**-0.5 if c("scale_attn_weights") else 1.0
    by_layer = c("scale_attn_by_inverse_layer_idx")
    scales = [scale / (i + 1 if by_layer else 1) for i in range(c("n_layer"))]
    return (
        read
        | fields.layer_norm(c, "layer_norm_epsilon")
        | {
            "positions": "learned",
            "max_positions": c("n_positions"),
            "feed_forward": fields.activation(c, "activation_function"),
            "hidden_dim": c("n_inner"),
            "scale": scales,
        }
    )


GPT2: Table = {
    "wte": names.EMBED,
    "wpe": names.POSITIONS,
    "h.*.ln_1": names.NORM_1,
    "h.*.attn.c_attn": transposed(*names.QKV),
    "h.*.attn.c_proj": transposed(names.OUT),
    "h.*.ln_2": names.NORM_2,
    "h.*.mlp.c_fc": transposed(names.UP),
    "h.*.mlp.c_proj": transposed(names.DOWN),
    "ln_f": names.FINAL_NORM,
    "lm_head": names.HEAD,
}


def gpt_neox(c: Config) -> dict[str, Any]:
    """Read GPT-NeoX: RoPE on a part of each head, parallel layers."""
    c.ignore("attention_dropout", "hidden_dropout", "classifier_dropout")
    c.ignore("is_decoder")
    head_dim = c("hidden_size") // c("num_attention_heads")
    read = fields.decoder(c) | fields.layer_norm(c) | fields.feed_forward(c)
    return read | {
        "positions": fields.rope(c, head_dim, partial=True),
        "norm_order": "parallel" if c("use_parallel_residual") else "pre",
        "bias": c("attention_bias"),
        "ffn_bias": True,
    }


GPT_NEOX: Table = {
    "embed_in": names.EMBED,
    "layers.*.input_layernorm": names.NORM_1,
    "layers.*.attention.query_key_value": qkv_by_head(*names.QKV),
    "layers.*.attention.dense": names.OUT,
    "layers.*.post_attention_layernorm": names.NORM_2,
    "layers.*.mlp.dense_h_to_4h": names.UP,
    "layers.*.mlp.dense_4h_to_h": names.DOWN,
    "final_layer_norm": names.FINAL_NORM,
    "lm_head": names.HEAD,
}


def bloom(c: Config) -> dict[str, Any]:
    """Read Bloom: ALiBi, and a norm after the embeddings."""
    c.require(apply_residual_connection_post_layernorm=False)
    if c("pretraining_tp", 1) > 1:
        c.require(slow_but_exact=False)  # the exact variant drops a bias
    c.ignore("slow_but_exact", "attention_dropout", "hidden_dropout")
    # Published files say how the model was trained.
    c.ignore("attention_softmax_in_fp32", "masked_softmax_fusion")
    c.ignore("bias_dropout_fusion", "skip_bias_add", "skip_bias_add_qkv")
    c.ignore("n_inner", "offset_alibi", "seq_length")
    read = fields.decoder(c, num_layers="n_layer", num_heads="n_head")
    return (
        read
        | fields.layer_norm(c, "layer_norm_epsilon")
        | {
            "positions": "alibi",
            "embed_norm": True,
            "feed_forward": "gelu_tanh",
        }
    )


BLOOM: Table = {
    "word_embeddings": names.EMBED,
    "word_embeddings_layernorm": names.EMBED_NORM,
    "h.*.input_layernorm": names.NORM_1,
    "h.*.self_attention.query_key_value": qkv_by_head(*names.QKV),
    "h.*.self_attention.dense": names.OUT,
    "h.*.post_attention_layernorm": names.NORM_2,
    "h.*.mlp.dense_h_to_4h": names.UP,
    "h.*.mlp.dense_4h_to_h": names.DOWN,
    "ln_f": names.FINAL_NORM,
    "lm_head": names.HEAD,
}

FAMILIES = {
    "gpt2": Family(
        gpt2,
        GPT2,
        "wte.weight",
        "transformer.",
        buffers=(".attn.bias", ".attn.masked_bias"),
    ),
    "gpt_neox": Family(
        gpt_neox,
        GPT_NEOX,
        "embed_in.weight",
        "gpt_neox.",
        buffers=(".inv_freq", ".attention.bias", ".masked_bias"),
    ),
    "bloom": Family(bloom, BLOOM, "word_embeddings.weight", "transformer."),
}
