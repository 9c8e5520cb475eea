"""A whole model: embeddings, blocks, a final norm, and a head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn.cache import Cache
from attn.masks import Mask
from attn.nn import validation
from attn.nn.block import LayerFactory, TransformerBlock
from attn.nn.norms import LayerNorm
from attn.positions import Rope

INIT_STD = 0.02  # of every weight, as in GPT-2


class Transformer(nn.Module):
    """From token ids to logits; decoder-only, encoder, or both.

    Causal by default: a language model that sees the future learns nothing.
    Without ``positions``, ``rope`` or ``alibi`` it sees a set (or, when
    causal, the order that the mask reveals).

    Args:
        vocab_size, embed_dim, num_heads: ``V``, ``E``, ``H``.
        num_layers: blocks.
        positions: a module from position ids ``(…, L)`` to vectors that are
            added, such as ``LearnedPositions`` or ``SinusoidalPositions``.
        rope: of every block, with tables computed once a call.
        segments: number of learned segment vectors (BERT's token types).
        embed_scale: factor on the token embeddings (Gemma: ``E ** 0.5``).
        embed_norm: a norm after the embeddings (BERT, Bloom).
        norm_layer, norm: as in ``TransformerBlock``.
        is_causal: a decoder; False for an encoder.
        head: end with logits; False ends with the hidden states.
        tied: the head shares its weights with the token embeddings.
        final_softcap: squash the logits (Gemma 2).
        dropout: of the embeddings and in every block.
        block: every other argument of ``TransformerBlock`` and of its
            ``MultiHeadAttention``.

    A final norm follows the blocks whose own output is not normalised:
    those with ``"pre"`` and ``"sandwich"``, not those with ``"post"``.

    Source: Radford et al. 2019 (GPT-2), also for the initial weights;
    Press and Wolf 2017 (tied weights).
    """

    def __init__(
        self,
        vocab_size: int,
        embed_dim: int,
        num_layers: int,
        num_heads: int,
        *,
        positions: nn.Module | None = None,
        rope: Rope | None = None,
        segments: int = 0,
        embed_scale: float = 1.0,
        embed_norm: bool = False,
        norm_layer: LayerFactory = LayerNorm,
        norm: str = "pre",
        is_causal: bool = True,
        head: bool = True,
        tied: bool = True,
        final_softcap: float | None = None,
        dropout: float = 0.0,
        **block: Any,
    ):
        super().__init__()
        self.embed_scale = embed_scale
        self.final_softcap = final_softcap
        self.token_embedding = nn.Embedding(vocab_size, embed_dim)
        self.positions = positions
        self.segment_embedding = (
            nn.Embedding(segments, embed_dim) if segments else None
        )
        self.embed_norm = norm_layer(embed_dim) if embed_norm else None
        self.rope = rope
        self.dropout = nn.Dropout(dropout)
        block |= {"norm_layer": norm_layer, "norm": norm, "dropout": dropout}
        block |= {"rope": rope, "is_causal": is_causal}
        self.blocks = nn.ModuleList(
            TransformerBlock(embed_dim, num_heads, **block)
            for _ in range(num_layers)
        )
        self.final_norm = norm_layer(embed_dim) if norm != "post" else None
        self.head: nn.Module | None = None
        if head:
            self.head = nn.Linear(embed_dim, vocab_size, bias=False)
        _init_weights(self)
        if isinstance(self.head, nn.Linear) and tied:
            self.head.weight = self.token_embedding.weight

    def forward(
        self,
        ids: Tensor | None = None,
        *,
        inputs_embeds: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attn_mask: Tensor | Mask | None = None,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        memory: Tensor | None = None,
        memory_attention_mask: Tensor | None = None,
        need_weights: bool = False,
        caches: Sequence[Cache] | None = None,
    ) -> Any:
        """Run the model.

        Args:
            ids: token ids, ``(B, L)``.
            inputs_embeds: vectors ``(B, L, E)`` instead of ids, without
                ``embed_scale``.
            attention_mask: transformers' ``(B, L)``, 1 for a real token.
            attn_mask: an additional mask, see ``MultiHeadAttention``.
            positions: position ids, ``(L,)`` or ``(B, L)``; ``0, 1, 2, …``
                when None. Padding on the left needs
                ``position_ids(attention_mask)``.
            segments: segment of each token, ``(B, L)``; 0 when None.
            memory: an encoder's output, ``(B, S, E)``.
            memory_attention_mask: its real tokens, ``(B, S)``.
            need_weights: also return every layer's attention weights.
            caches: one for each block, of the tokens read before. Positions
                continue from there, and ``attention_mask`` covers all
                tokens, those before too (or the capacity of static caches:
                in a compiled graph always, and no shape ever changes).

        Returns:
            Logits ``(B, L, V)``, or hidden states ``(B, L, E)`` without a
            head; with ``need_weights`` also a list of ``(B, H, L, L)``.

        Raises:
            ValueError, TypeError: an argument is wrong.
        """
        if (ids is None) == (inputs_embeds is None):
            raise ValueError(
                "exactly one of ids and inputs_embeds must be given; got "
                f"{'neither' if ids is None else 'both'}"
            )
        x = inputs_embeds
        if x is None:
            x = self.token_embedding(ids) * self.embed_scale
        if x.dim() != 3:
            raise ValueError(
                "ids must have shape (B, L), or inputs_embeds (B, L, E); got "
                f"embeddings of shape {tuple(x.shape)}"
            )
        if caches is not None and len(caches) != len(self.blocks):
            raise ValueError(
                "caches must have one entry for each block, "
                f"{len(self.blocks)}; got {len(caches)}"
            )
        if positions is None:
            length = x.shape[1]
            positions = torch.arange(length, device=x.device)
            if caches:
                positions = caches[0].positions(length).to(x.device)
        validation.positions("positions", positions, x)
        x = self._embed(x, positions, segments)  # (B, L, E)
        padding = _to_padding_mask(
            "attention_mask", attention_mask, x, caches[0] if caches else None
        )
        kwargs: dict[str, Any] = {
            "attn_mask": attn_mask,
            "key_padding_mask": padding,
            "memory": memory,
            "memory_key_padding_mask": _to_padding_mask(
                "memory_attention_mask", memory_attention_mask, memory
            ),
            "positions": positions,
            "position_embeddings": self.rope and self.rope(positions),
            "need_weights": need_weights,
        }
        all_weights = []
        for i, block in enumerate(self.blocks):
            x = block(x, cache=caches[i] if caches else None, **kwargs)
            if need_weights:
                x, weights = x
                all_weights.append(weights)
        x = x if self.final_norm is None else self.final_norm(x)
        if self.head is not None:
            x = self.head(x)
            if self.final_softcap is not None:
                x = self.final_softcap * torch.tanh(x / self.final_softcap)
        return (x, all_weights) if need_weights else x

    def _embed(
        self, x: Tensor, positions: Tensor, segments: Tensor | None
    ) -> Tensor:
        """Add segments and positions to the token embeddings."""
        if self.segment_embedding is not None:
            if segments is None:
                segments = x.new_zeros(x.shape[:-1], dtype=torch.long)
            if segments.shape != x.shape[:-1]:
                raise ValueError(
                    f"segments must have shape (B, L) = {tuple(x.shape[:-1])}"
                    f"; got {tuple(segments.shape)}"
                )
            x = x + self.segment_embedding(segments)
        elif segments is not None:
            raise ValueError(
                "segments must be None for a model without segments; got a "
                "tensor"
            )
        if self.positions is not None:
            x = x + self.positions(positions).to(x.dtype)
        x = x if self.embed_norm is None else self.embed_norm(x)
        return self.dropout(x)

    def loss(self, ids: Tensor, **inputs: Any) -> Tensor:
        """Return the mean cross-entropy of each next token, in nats.

        Arguments are those of ``forward``, with ``L`` at least 2 and no
        padding. The result is a scalar, about ``ln V`` before training.
        """
        logits = self(ids, **inputs)  # (B, L, V)
        return F.cross_entropy(
            logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten()
        )


def _to_padding_mask(
    name: str,
    mask: Tensor | None,
    x: Tensor | None,
    cache: Cache | None = None,
) -> Tensor | None:
    """Convert transformers' ``attention_mask`` to a ``key_padding_mask``."""
    if mask is None:
        return None
    if x is None:
        raise ValueError(f"{name} must be None without memory; got a tensor")
    lengths = (
        (x.shape[1],) if cache is None else cache.mask_lengths(x.shape[1])
    )
    shapes = [(x.shape[0], length) for length in lengths]
    if tuple(mask.shape) not in shapes:
        need = " or ".join(map(str, shapes))
        raise ValueError(
            f"{name} must have shape (B, L) = {need}; got {tuple(mask.shape)}"
        )
    if mask.is_floating_point():
        raise TypeError(
            f"{name} must be bool or integers, 1 for a real token; got "
            f"{mask.dtype}"
        )
    return ~mask.bool()


@torch.no_grad()
def _init_weights(model: Transformer) -> None:
    """Draw GPT-2's initial weights.

    Those whose output is added to the residual stream are scaled down by the
    number of additions, so that its size does not grow with depth.
    """
    additions = max(2 * len(model.blocks), 1)
    for name, x in model.named_parameters():
        if x.is_meta:
            continue  # nothing to draw, and torch takes its time over it
        if x.dim() > 1:
            is_added = name.endswith(("out_proj.weight", "down_proj.weight"))
            x.normal_(std=INIT_STD * (additions**-0.5 if is_added else 1.0))
        elif name.endswith("bias"):
            x.zero_()
