"""A whole model: embeddings, blocks, a last norm, and a head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn.cache import Cache
from attn.masks import Mask
from attn.nn.block import Make, TransformerBlock
from attn.nn.feed_forward import FeedForward
from attn.nn.norms import LayerNorm
from attn.positions import Rope

STD = 0.02  # of every weight at the start: GPT-2's


class Transformer(nn.Module):
    """From token ids to logits; decoder-only, encoder, or both.

    Causal unless told otherwise: a language model that sees the future
    learns nothing. Without ``positions``, ``rope`` or ``alibi`` it sees a
    set (or, when causal, what the mask gives away).

    Args:
        vocab_size: ``V``.
        embed_dim: ``E``.
        num_layers: blocks.
        num_heads: ``H``.
        positions: a module from position ids ``(…, L)`` to vectors to add,
            such as ``LearnedPositions`` or ``SinusoidalPositions``.
        rope: turns queries and keys in every block; its tables are made
            once a call.
        segments: number of learned segment vectors (BERT's token types).
        embed_scale: factor on the token embeddings (Gemma: ``E ** 0.5``).
        embed_norm: a norm after the embeddings (BERT, Bloom).
        feed_forward, norm_layer, norm, parallel, cross_attention: as in
            ``TransformerBlock``.
        is_causal: a decoder; False for an encoder.
        head: end with logits; False ends with the hidden states.
        tied: the head's weights are the token embeddings'.
        final_softcap: squash the logits (Gemma 2).
        dropout: of the embeddings and in every block.
        attention: every other argument of ``MultiHeadAttention``.

    A last norm stands after the blocks where their own output is not
    normalised: with ``"pre"`` and ``"sandwich"``, not with ``"post"``.

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
        feed_forward: Make = FeedForward,
        norm_layer: Make = LayerNorm,
        norm: str = "pre",
        parallel: bool = False,
        cross_attention: bool = False,
        is_causal: bool = True,
        head: bool = True,
        tied: bool = True,
        final_softcap: float | None = None,
        dropout: float = 0.0,
        **attention: Any,
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
        self.blocks = nn.ModuleList(
            TransformerBlock(
                embed_dim,
                num_heads,
                feed_forward=feed_forward,
                norm_layer=norm_layer,
                norm=norm,
                parallel=parallel,
                cross_attention=cross_attention,
                dropout=dropout,
                rope=rope,
                is_causal=is_causal,
                **attention,
            )
            for _ in range(num_layers)
        )
        self.final_norm = norm_layer(embed_dim) if norm != "post" else None
        self.head: nn.Module | None = None
        if head:
            self.head = nn.Linear(embed_dim, vocab_size, bias=False)
        _start(self)
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
            inputs_embeds: vectors ``(B, L, E)`` instead of ids; taken as
                they are, without ``embed_scale``.
            attention_mask: True (or 1) for a real token, ``(B, L)``, as in
                transformers.
            attn_mask: who may attend to whom besides, see
                ``MultiHeadAttention``.
            positions: position ids, ``(L,)`` or ``(B, L)``; ``0, 1, 2, …``
                when None. Padding on the left needs
                ``position_ids(attention_mask)``.
            segments: segment of each token, ``(B, L)``; 0 when None.
            memory: an encoder's output, ``(B, S, E)``.
            memory_attention_mask: its real tokens, ``(B, S)``.
            need_weights: return every layer's attention weights too.
            caches: one for each block: what was read before. Positions go
                on from there, and ``attention_mask`` is about all tokens,
                those before too.

        Returns:
            Logits ``(B, L, V)``, or hidden states ``(B, L, E)`` without a
            head; with ``need_weights`` also a list of ``(B, H, L, L)``.

        Raises:
            ValueError, TypeError: an argument does not fit.
        """
        if (ids is None) == (inputs_embeds is None):
            raise ValueError(
                "ids and inputs_embeds: exactly one of them is needed"
            )
        x = inputs_embeds
        if x is None:
            x = self.token_embedding(ids) * self.embed_scale
        if x.dim() != 3:
            raise ValueError(
                f"the input has {x.dim() - 1} axes of tokens: it needs "
                "ids (B, L) or inputs_embeds (B, L, E)"
            )
        if caches is not None and len(caches) != len(self.blocks):
            raise ValueError(
                f"caches has {len(caches)} entries: the model needs one for "
                f"each of its {len(self.blocks)} blocks"
            )
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
            if caches:
                positions = caches[0].positions(x.shape[1]).to(x.device)
        _check_shapes(x, positions, segments)
        x = self._embed(x, positions, segments)  # (B, L, E)
        said: dict[str, Any] = {
            "attn_mask": attn_mask,
            "key_padding_mask": _unreal(
                "attention_mask", attention_mask, x, _read(caches)
            ),
            "memory": memory,
            "memory_key_padding_mask": _unreal(
                "memory_attention_mask", memory_attention_mask, memory
            ),
            "positions": positions,
        }
        if self.rope is not None:
            said["position_embeddings"] = self.rope(positions)
        weights = []
        for i, block in enumerate(self.blocks):
            if caches is not None:
                said["cache"] = caches[i]
            if need_weights:
                x, seen = block(x, need_weights=True, **said)
                weights.append(seen)
            else:
                x = block(x, **said)
        x = x if self.final_norm is None else self.final_norm(x)
        if self.head is not None:
            x = self.head(x)
            if self.final_softcap is not None:
                x = self.final_softcap * torch.tanh(x / self.final_softcap)
        return (x, weights) if need_weights else x

    def _embed(
        self, x: Tensor, positions: Tensor, segments: Tensor | None
    ) -> Tensor:
        """Everything that is added up before the first block."""
        if self.segment_embedding is not None:
            if segments is None:
                segments = torch.zeros(
                    x.shape[:-1], dtype=torch.long, device=x.device
                )
            x = x + self.segment_embedding(segments)
        elif segments is not None:
            raise ValueError("segments is given: the model was made without")
        if self.positions is not None:
            x = x + self.positions(positions).to(x.dtype)
        x = x if self.embed_norm is None else self.embed_norm(x)
        return self.dropout(x)

    def loss(self, ids: Tensor, **inputs: Any) -> Tensor:
        """Mean cross-entropy of each next token, in nats.

        Args:
            ids: ``(B, L)``, ``L`` at least 2; no padding.
            inputs: as in ``forward``.

        Returns:
            A scalar; ``ln V`` for a model that knows nothing.
        """
        logits = self(ids, **inputs)  # (B, L, V)
        return F.cross_entropy(
            logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten()
        )


def _check_shapes(
    x: Tensor, positions: Tensor, segments: Tensor | None
) -> None:
    batch, length = x.shape[:2]
    if positions.shape not in ((length,), (1, length), (batch, length)):
        raise ValueError(
            f"positions has shape {tuple(positions.shape)}: it needs (L,) "
            f"or (B, L) with B = {batch} and L = {length}"
        )
    if segments is not None and segments.shape != (batch, length):
        raise ValueError(
            f"segments has shape {tuple(segments.shape)}: it needs (B, L) = "
            f"{(batch, length)}"
        )


def _read(caches: Sequence[Cache] | None) -> int:
    """Tokens that the longest row has read before."""
    if not caches:
        return 0
    return int(torch.as_tensor(caches[0].seq_len).max())


def _unreal(
    name: str, mask: Tensor | None, x: Tensor | None, before: int = 0
) -> Tensor | None:
    """transformers' ``attention_mask`` as torch's ``key_padding_mask``."""
    if mask is None:
        return None
    need: Any = "no memory"
    if x is not None:
        need = (x.shape[0], before + x.shape[1])
    if tuple(mask.shape) != need:
        raise ValueError(
            f"{name} has shape {tuple(mask.shape)}: it needs (B, L) = {need}"
        )
    if mask.is_floating_point():
        raise TypeError(
            f"{name} has dtype {mask.dtype}: it needs bool or integers, 1 "
            "for a real token"
        )
    return ~mask.bool()


@torch.no_grad()
def _start(model: Transformer) -> None:
    """GPT-2's initial weights.

    What goes into the residual stream is scaled down by the number of
    additions, so that its size does not grow with depth.
    """
    halves = 2 * len(model.blocks) + (1 if len(model.blocks) == 0 else 0)
    for name, x in model.named_parameters():
        if x.dim() < 2:
            if name.endswith("bias"):
                x.zero_()
            continue
        into_stream = name.endswith(("out_proj.weight", "down_proj.weight"))
        x.normal_(std=STD * halves**-0.5 if into_stream else STD)
