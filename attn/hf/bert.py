"""BERT: the encoder of attn.nn, its two small heads, and its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attn import arguments
from attn.hf import config_fields as fields
from attn.hf import names
from attn.hf.config_fields import Config, Family
from attn.hf.weights import Table
from attn.nn import LayerNorm, Transformer, TransformerConfig
from attn.nn.feed_forward import ACTIVATIONS


class Bert(nn.Module):
    """An encoder with BERT's masked-word head and pooler, both optional.

    Args:
        config: of the encoder, without a head.
        activation, eps: of the masked-word head's transform.
        head: end with logits over the vocabulary.
        pooler: provide ``pool``.

    Example:
        >>> from transformers import BertConfig, BertForMaskedLM
        >>> config = BertConfig(
        ...     vocab_size=50, hidden_size=16, num_hidden_layers=2,
        ...     num_attention_heads=2, intermediate_size=32,
        ... )
        >>> theirs = BertForMaskedLM(config).eval()
        >>> ours = attn.hf.load(theirs)  # a Bert
        >>> ids = torch.tensor([[2, 7, 11]])
        >>> torch.allclose(ours(ids), theirs(ids).logits, atol=1e-5)
        True

    Source: Devlin et al. 2019; transformers ``modeling_bert.py``.
    """

    @arguments.named()
    def __init__(
        self,
        config: TransformerConfig,
        *,
        activation: str,
        eps: float,
        head: bool,
        pooler: bool,
    ):
        super().__init__()
        embed_dim = config.embed_dim
        self.activation = activation
        self.body = Transformer(config)
        self.pooler = nn.Linear(embed_dim, embed_dim) if pooler else None
        self.transform: nn.Module | None = None
        if head:
            self.transform = nn.Linear(embed_dim, embed_dim)
            self.transform_norm = LayerNorm(embed_dim, eps)
            self.decoder = nn.Linear(embed_dim, config.vocab_size)

    @classmethod
    def from_config(cls, fields: Mapping[str, Any]) -> Bert:
        """Build a model of the fields of ``bert``."""
        own = {k: fields[k] for k in ("activation", "eps", "head", "pooler")}
        body = {k: x for k, x in fields.items() if k not in own}
        return cls(TransformerConfig(**body, head=False), **own)

    def forward(self, ids: Tensor | None = None, **inputs: Any) -> Tensor:
        """Return logits, ``(B, L, V)``, or states without a head.

        Args:
            ids: token ids, ``(B, L)``.
            inputs: ``attention_mask``, ``segments`` (token types),
                ``positions`` and more, as in ``Transformer.forward``.
        """
        states = self.body(ids, **inputs)  # (B, L, E)
        if self.transform is None:
            return states
        hidden = ACTIVATIONS[self.activation](self.transform(states))
        return self.decoder(self.transform_norm(hidden))

    def pool(self, states: Tensor) -> Tensor:
        """Return a vector per sentence, ``(B, E)``, of its first state.

        Args:
            states: hidden states, ``(B, L, E)``.
        """
        if self.pooler is None:
            raise ValueError("pool needs a pooler; the weights had no pooler")
        return torch.tanh(self.pooler(states[:, 0]))


def bert(c: Config) -> dict[str, Any]:
    """Read BERT: post-norm layers, segments, learned positions."""
    c.require(add_cross_attention=False, position_embedding_type="absolute")
    c.ignore("attention_probs_dropout_prob", "hidden_dropout_prob")
    c.ignore("classifier_dropout")
    return {
        "vocab_size": c("vocab_size"),
        "embed_dim": c("hidden_size"),
        "num_layers": c("num_hidden_layers"),
        "num_heads": c("num_attention_heads"),
        "positions": "learned",
        "max_positions": c("max_position_embeddings"),
        "segments": c("type_vocab_size"),
        "embed_norm": True,
        **fields.feed_forward(c),
        **fields.layer_norm(c),
        "norm_order": "post",
        "is_causal": c("is_decoder", False),
        "tied": c("tie_word_embeddings", True),
        "activation": fields.activation(c, "hidden_act"),
        "eps": c("layer_norm_eps"),
    }


ENCODER = {
    "embeddings.word_embeddings": names.EMBED,
    "embeddings.position_embeddings": names.POSITIONS,
    "embeddings.token_type_embeddings": "segment_embedding",
    "embeddings.LayerNorm": names.EMBED_NORM,
    "encoder.layer.*.attention.self.query": names.Q,
    "encoder.layer.*.attention.self.key": names.K,
    "encoder.layer.*.attention.self.value": names.V,
    "encoder.layer.*.attention.output.dense": names.OUT,
    "encoder.layer.*.attention.output.LayerNorm": names.NORM_1,
    "encoder.layer.*.intermediate.dense": names.UP,
    "encoder.layer.*.output.dense": names.DOWN,
    "encoder.layer.*.output.LayerNorm": names.NORM_2,
}
BERT: Table = {
    **{source: f"body.{target}" for source, target in ENCODER.items()},
    "pooler.dense": "pooler",
    "cls.predictions.transform.dense": "transform",
    "cls.predictions.transform.LayerNorm": "transform_norm",
    "cls.predictions.decoder": "decoder",
    "cls.predictions": "decoder",  # its bias, if the two are tied
}

FAMILIES = {
    "bert": Family(
        bert,
        BERT,
        "embeddings.word_embeddings.weight",
        "bert.",
        make=Bert,
        head="cls.predictions.decoder.weight",
        parts={
            "head": "cls.predictions.transform.dense.weight",
            "pooler": "pooler.dense.weight",
        },
        buffers=("embeddings.position_ids",),
    ),
}
