"""BERT."""

from __future__ import annotations

import functools
from typing import Any

from attn.hf.bert import Bert
from attn.hf.config import Config
from attn.hf.reading import (
    DOWN,
    NORM_1,
    NORM_2,
    OUT,
    UP,
    Family,
    K,
    Q,
    V,
    activation,
    learned,
)
from attn.hf.weights import Table
from attn.nn import FeedForward, LayerNorm


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

FAMILIES = {
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
