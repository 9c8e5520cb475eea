"""Eight families of transformers' models: what they are, in our words.

Each is a function that reads its configuration into the arguments of
``attn.nn.Transformer``, and a table of its modules and ours. The tables only
rename and cut; the sources are ``modeling_<family>.py`` of transformers 5.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import nn

from attn.hf.bert import Bert
from attn.hf.config import Config
from attn.hf.weights import Table, fused, plus_one, thirds, transposed
from attn.nn import FeedForward, LayerNorm, RMSNorm, SwiGLU, Transformer
from attn.positions import LearnedPositions, Rope


class Family(NamedTuple):
    """How to read one family."""

    arguments: Callable[[Config], dict[str, Any]]
    table: Table
    prefix: str  # that a model with a head puts before its body's names
    make: Callable[..., nn.Module] = Transformer
    # Parts that not every checkpoint has, and a weight that tells.
    parts: dict[str, str] = {"head": "lm_head.weight"}
    tied: tuple[str, str] = ("head.weight", "token_embedding.weight")
    buffers: tuple[str, ...] = ()  # stored by old checkpoints; not weights


Q, K, V, OUT = (f"blocks.*.attention.{x}_proj" for x in ("q", "k", "v", "out"))
UP, DOWN, GATE = (
    f"blocks.*.feed_forward.{x}_proj" for x in ("up", "down", "gate")
)
NORM_1, NORM_2 = "blocks.*.attention_norm", "blocks.*.feed_forward_norm"
POST_1, POST_2 = (
    "blocks.*.attention_post_norm",
    "blocks.*.feed_forward_post_norm",
)

# ---------------------------------------------------------------- GPT-2


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

# ------------------------------------- Llama, Qwen3, Mistral and Gemma2


def llama_like(c: Config, hidden_act: str = "hidden_act") -> dict[str, Any]:
    """RoPE, RMSNorm first, SwiGLU, grouped heads."""
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
        "rope": rope(c, head_dim),
        "feed_forward": functools.partial(
            SwiGLU,
            hidden_dim=c("intermediate_size"),
            activation=activation(c, hidden_act),
            bias=c("mlp_bias", False),
        ),
        "norm_layer": functools.partial(RMSNorm, eps=c("rms_norm_eps")),
        "bias": c("attention_bias", False),
        "is_causal": c("is_causal", True),
        "tied": c("tie_word_embeddings"),
        "each_layer": {},
    }


def qwen3(c: Config) -> dict[str, Any]:
    """A Llama that normalises queries and keys."""
    c.ignore("use_sliding_window", "max_window_layers")  # in layer_types
    return llama_like(c) | {
        "qk_norm": True,
        "norm_eps": c("rms_norm_eps"),
        "each_layer": {"window": windows(c, c("layer_types"))},
    }


def mistral(c: Config) -> dict[str, Any]:
    """A Llama that looks back no further than its window."""
    kind = "full" if c("sliding_window") is None else "sliding"
    kinds = [f"{kind}_attention"] * c("num_hidden_layers")
    return llama_like(c) | {"each_layer": {"window": windows(c, kinds)}}


def gemma2(c: Config) -> dict[str, Any]:
    """Norms before and after, softcaps, every other layer a window."""
    c.ignore("hidden_act")  # in published files; hidden_activation is read
    c.only(use_bidirectional_attention=None)
    return llama_like(c, "hidden_activation") | {
        "norm": "sandwich",
        # transformers keeps it in float32, whatever the model's dtype.
        "embed_scale": float(torch.tensor(c("hidden_size") ** 0.5)),
        "scale": c("query_pre_attn_scalar") ** -0.5,
        "softcap": c("attn_logit_softcapping"),
        "final_softcap": c("final_logit_softcapping"),
        "each_layer": {"window": windows(c, c("layer_types"))},
    }


LLAMA: Table = {
    "embed_tokens": "token_embedding",
    "layers.*.input_layernorm": NORM_1,
    "layers.*.self_attn.q_proj": Q,
    "layers.*.self_attn.k_proj": K,
    "layers.*.self_attn.v_proj": V,
    "layers.*.self_attn.o_proj": OUT,
    "layers.*.post_attention_layernorm": NORM_2,
    "layers.*.mlp.gate_proj": GATE,
    "layers.*.mlp.up_proj": UP,
    "layers.*.mlp.down_proj": DOWN,
    "norm": "final_norm",
    "lm_head": "head",
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

# ------------------------------------------------------------- GPT-NeoX


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

# ---------------------------------------------------------------- Bloom


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

# ----------------------------------------------------------------- BERT


def bert(c: Config) -> dict[str, Any]:
    """An encoder with norms after, segments, and a pooler."""
    c.only(add_cross_attention=False, position_embedding_type="absolute")
    c.ignore("attention_probs_dropout_prob", "hidden_dropout_prob")
    c.ignore("classifier_dropout")
    embed, eps = c("hidden_size"), c("layer_norm_eps")
    name = activation(c, "hidden_act")
    return {
        "vocab_size": c("vocab_size"),
        "embed_dim": embed,
        "num_layers": c("num_hidden_layers"),
        "num_heads": c("num_attention_heads"),
        "positions": learned(c("max_position_embeddings"), embed),
        "segments": c("type_vocab_size"),
        "embed_norm": True,
        "feed_forward": functools.partial(
            FeedForward, hidden_dim=c("intermediate_size"), activation=name
        ),
        "norm_layer": functools.partial(LayerNorm, eps=eps),
        "norm": "post",
        "is_causal": c("is_decoder", False),
        "tied": c("tie_word_embeddings", True),
        "activation": name,
        "eps": eps,
        "each_layer": {},
    }


ENCODER = {
    "embeddings.word_embeddings": "token_embedding",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "segment_embedding",
    "embeddings.LayerNorm": "embed_norm",
    "encoder.layer.*.attention.self.query": Q,
    "encoder.layer.*.attention.self.key": K,
    "encoder.layer.*.attention.self.value": V,
    "encoder.layer.*.attention.output.dense": OUT,
    "encoder.layer.*.attention.output.LayerNorm": NORM_1,
    "encoder.layer.*.intermediate.dense": UP,
    "encoder.layer.*.output.dense": DOWN,
    "encoder.layer.*.output.LayerNorm": NORM_2,
}
BERT: Table = {theirs: f"body.{ours}" for theirs, ours in ENCODER.items()} | {
    "pooler.dense": "pooler",
    "cls.predictions.transform.dense": "transform",
    "cls.predictions.transform.LayerNorm": "transform_norm",
    "cls.predictions.decoder": "decoder",
    "cls.predictions": "decoder",  # its bias, where they are tied
}

# ------------------------------------------------- what they have in common


def activation(c: Config, field: str) -> str:
    """Our name for an activation."""
    name = c(field)
    if name not in ACTIVATIONS:
        c.refuse(field, list(ACTIVATIONS))
    return ACTIVATIONS[name]


ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def learned(max_len: int, embed_dim: int) -> LearnedPositions:
    """A table to be filled: nothing is drawn for it."""
    with torch.device("meta"):
        return LearnedPositions(max_len, embed_dim)


def rope(c: Config, head_dim: int, partial: bool = False) -> Rope:
    """``rope_parameters`` as a module; ours refuses what it does not know.

    Args:
        partial: whether the family turns a part of each head only.
    """
    law = {k: v for k, v in c("rope_parameters").items() if v is not None}
    kind = law.pop("rope_type", law.pop("type", "default"))
    law.pop("type", None)
    partial = partial or kind == "proportional"
    if not partial and law.get("partial_rotary_factor", 1.0) != 1.0:
        c.refuse("rope_parameters", "partial_rotary_factor = 1.0")
    try:
        return Rope(
            head_dim,
            float(law.pop("rope_theta")),
            kind,
            max_position_embeddings=c("max_position_embeddings"),
            **law,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NotImplementedError(
            f"config.rope_parameters is {c('rope_parameters')}: {error}"
        ) from error


def windows(
    c: Config, kinds: Iterable[str]
) -> list[tuple[int, int | None] | None]:
    """The window of each layer.

    Hugging Face's ``sliding_window`` counts the token itself where the
    model is causal, and does not where it looks both ways.
    """
    size = c("sliding_window")
    found: list[tuple[int, int | None] | None] = []
    for kind in kinds:
        if kind == "full_attention":
            found.append(None)
        elif kind == "sliding_attention" and size is not None:
            causal = c("is_causal", True)
            found.append((size - 1, None) if causal else (size, size))
        else:
            c.refuse("layer_types", ["full_attention", "sliding_attention"])
    return found


ROTARY = (".rotary_emb.inv_freq",)
MASKS = (".attention.bias", ".attention.masked_bias")
FAMILIES = {
    "gpt2": Family(
        gpt2, GPT2, "transformer.", buffers=(".attn.bias", ".attn.masked_bias")
    ),
    "llama": Family(llama_like, LLAMA, "model.", buffers=ROTARY),
    "qwen3": Family(qwen3, QWEN3, "model.", buffers=ROTARY),
    "mistral": Family(mistral, LLAMA, "model.", buffers=ROTARY),
    "gemma2": Family(gemma2, GEMMA2, "model.", buffers=ROTARY),
    "gpt_neox": Family(
        gpt_neox, GPT_NEOX, "gpt_neox.", buffers=ROTARY + MASKS
    ),
    "bloom": Family(bloom, BLOOM, "transformer."),
    "bert": Family(
        bert,
        BERT,
        "bert.",
        make=Bert,
        parts={
            "head": "cls.predictions.transform.dense.weight",
            "pooler": "pooler.dense.weight",
        },
        tied=("decoder.weight", "body.token_embedding.weight"),
        buffers=("embeddings.position_ids",),
    ),
}
