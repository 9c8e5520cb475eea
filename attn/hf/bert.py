"""BERT: our encoder, and the two small heads that it is published with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attn.nn import LayerNorm, Transformer
from attn.nn.feed_forward import ACTIVATIONS


class Bert(nn.Module):
    """An encoder with BERT's masked-word head and its pooler, if wanted.

    Args:
        vocab_size, embed_dim: ``V``, ``E``.
        activation, eps: of the masked-word head's transform.
        head: end with logits over the vocabulary.
        pooler: have ``pool``.
        encoder: the other arguments of ``Transformer``.

    Source: Devlin et al. 2019; transformers ``modeling_bert.py``.
    """

    def __init__(
        self,
        vocab_size: int,
        embed_dim: int,
        *,
        activation: str,
        eps: float,
        head: bool,
        pooler: bool,
        tied: bool = True,
        **encoder: Any,
    ):
        super().__init__()
        self.activation = activation
        self.body = Transformer(vocab_size, embed_dim, head=False, **encoder)
        self.pooler = nn.Linear(embed_dim, embed_dim) if pooler else None
        self.transform: nn.Module | None = None
        if head:
            self.transform = nn.Linear(embed_dim, embed_dim)
            self.transform_norm = LayerNorm(embed_dim, eps)
            self.decoder = nn.Linear(embed_dim, vocab_size)

    def forward(self, ids: Tensor | None = None, **inputs: Any) -> Tensor:
        """As ``attn.nn.Transformer``: logits, or hidden states.

        Args:
            ids: token ids, ``(B, L)``.
            inputs: ``attention_mask``, ``segments`` (token types),
                ``positions``, … as in ``Transformer.forward``.

        Returns:
            ``(B, L, V)`` with the masked-word head, else ``(B, L, E)``.
        """
        states = self.body(ids, **inputs)  # (B, L, E)
        if self.transform is None:
            return states
        hidden = ACTIVATIONS[self.activation](self.transform(states))
        return self.decoder(self.transform_norm(hidden))

    def pool(self, states: Tensor) -> Tensor:
        """One vector a sentence, from its first token.

        Args:
            states: hidden states, ``(B, L, E)``.

        Returns:
            ``(B, E)``.
        """
        if self.pooler is None:
            raise ValueError("the weights had no pooler: there is no pool")
        return torch.tanh(self.pooler(states[:, 0]))
