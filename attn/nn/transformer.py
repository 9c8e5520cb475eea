"""A whole model: embeddings, blocks, a final norm, and a head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn import arguments
from attn.cache import Cache, ragged
from attn.masks import Mask
from attn.nn import packing, validation
from attn.nn.building import init_weights, make_block
from attn.nn.config import TransformerConfig
from attn.nn.empty_caches import empty_caches
from attn.nn.norms import norm_factory


class Transformer(nn.Module):
    """From token ids to logits; decoder-only, encoder, or both.

    A final norm follows the blocks whose own output is not normalised:
    those of every ``norm_order`` but ``"post"``.

    Args:
        config: what it is made of. ``Transformer.from_config`` takes its
            JSON form, and ``model.to_config()`` returns it.
        fields: none; they are those of the configuration.

    Example:
        >>> config = attn.TransformerConfig(
        ...     vocab_size=256, embed_dim=64, num_layers=2, num_heads=4,
        ...     positions="rope", is_causal=True,
        ... )
        >>> model = attn.Transformer(config)
        >>> model(torch.zeros(1, 9, dtype=torch.long)).shape
        torch.Size([1, 9, 256])
        >>> again = attn.Transformer.from_config(model.to_config())
        >>> again.config == config
        True

    Source: Radford et al. 2019 (GPT-2), also for the initial weights;
    Press and Wolf 2017 (tied weights).
    """

    def __init__(self, config: TransformerConfig | None = None, **fields: Any):
        super().__init__()
        if fields:
            raise TypeError(
                "config must be a TransformerConfig; got its fields: "
                f"Transformer(TransformerConfig({', '.join(fields)}))"
            )
        if not isinstance(config, TransformerConfig):
            raise TypeError(
                "config must be a TransformerConfig; got "
                f"{type(config).__name__}: Transformer.from_config takes a "
                "mapping"
            )
        c = self.config = config
        self.embed_scale = c.embed_scale
        self.final_softcap = c.final_softcap
        self.token_embedding = nn.Embedding(c.vocab_size, c.embed_dim)
        self.positions, self.rope, alibi = c.build_positions()
        self.segment_embedding = (
            nn.Embedding(c.segments, c.embed_dim) if c.segments else None
        )
        make_norm = norm_factory(c.norm, c.norm_eps)
        self.embed_norm = make_norm(c.embed_dim) if c.embed_norm else None
        self.dropout = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList(
            make_block(c, layer, rope=self.rope, alibi=alibi)
            for layer in range(c.num_layers)
        )
        self.final_norm = None
        if c.norm_order != "post":
            self.final_norm = make_norm(c.embed_dim)
        self.head: nn.Module | None = None
        if c.head:
            self.head = nn.Linear(c.embed_dim, c.vocab_size, bias=False)
        init_weights(self)
        if isinstance(self.head, nn.Linear) and c.tied:
            self.head.weight = self.token_embedding.weight

    @classmethod
    def from_config(
        cls, config: TransformerConfig | Mapping[str, Any]
    ) -> Transformer:
        """Build a model of a configuration, or of its JSON form."""
        if not isinstance(config, TransformerConfig):
            config = TransformerConfig.from_dict(config)
        return cls(config)

    def to_config(self) -> dict[str, Any]:
        """Return the configuration as plain JSON; weights are no part."""
        return self.config.to_dict()

    @arguments.named()
    def new_caches(
        self,
        kind: str = "dynamic",
        *,
        batch: int = 1,
        capacity: int | None = None,
    ) -> list[Cache]:
        """Return an empty cache for each block, of the kind that it writes.

        Args:
            kind: ``"dynamic"``, ``"static"`` or ``"sliding"``, as in
                ``attn.generate``. Layers with a state have their own.
            batch, capacity: rows and most tokens, of static caches alone.

        Raises:
            ValueError, TypeError: the model has no caches of this kind, or
                an argument is wrong.

        Example:
            >>> model = attn.Transformer(attn.llama_style(
            ...     vocab_size=9, embed_dim=16, num_layers=2, num_heads=4,
            ... ))
            >>> ids, caches = torch.tensor([[1, 2, 3]]), model.new_caches()
            >>> for _ in range(5):  # read what is new, take the most likely
            ...     new = ids[:, caches[0].seq_len :]
            ...     best = model(new, caches=caches)[:, -1:].argmax(-1)
            ...     ids = torch.cat([ids, best], 1)
            >>> torch.equal(ids, attn.generate(model, ids[:, :3], 5))
            True
        """
        return empty_caches(self, kind, batch, capacity)

    @arguments.named()
    def forward(
        self,
        ids: Tensor | None = None,
        attn_mask: Tensor | Mask | None = None,
        *,
        inputs_embeds: Tensor | None = None,
        attention_mask: Tensor | None = None,
        lengths: Tensor | None = None,
        is_causal: bool | None = None,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        memory: Tensor | None = None,
        memory_attention_mask: Tensor | None = None,
        need_weights: bool = False,
        logits_to_keep: int | Tensor = 0,
        caches: Sequence[Cache] | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> Any:
        """Run the model.

        Args:
            ids: token ids, ``(B, L)``.
            attn_mask: of which token may attend to which, as in
                ``TransformerBlock.forward``. Padding is ``attention_mask``.
            inputs_embeds: vectors ``(B, L, E)`` instead of ids, without
                ``embed_scale``.
            attention_mask: transformers' ``(B, L)``, 1 for a real token.
            lengths: number of real tokens in each row, ``(B,)``, which come
                first: padding on the right. Caches store only them, and what
                follows needs no padding.
            is_causal: the configuration's when None.
            positions: position ids, ``(L,)`` or ``(B, L)``; ``0, 1, 2, …``
                when None. Padding on the left needs
                ``position_ids(attention_mask)``.
            segments: segment of each token, ``(B, L)``; 0 when None.
            memory: an encoder's output, ``(B, S, E)``.
            memory_attention_mask: its real tokens, ``(B, S)``.
            need_weights: also return every layer's attention weights.
            logits_to_keep: return those of this number of tokens, the last
                ones, in each row the last real ones with ``lengths``; 0 is
                all. To write, a model needs one. Or the indices of these
                tokens, integers ``(N,)``, as in transformers.
            caches: one for each block, of the tokens read before. Positions
                continue from there, and ``attention_mask`` covers all
                tokens, those before too (or the capacity of static caches:
                in a compiled graph always, and no shape ever changes).
            cu_seqlens: where each of several texts starts that are packed
                end to end into the only row, and the end of the last,
                integers ``(N + 1,)``. None sees another, in layers with a
                state too, and the positions of each count from 0.

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
            x = self._embedded(ids) * self.embed_scale
        if x.dim() != 3:
            raise ValueError(
                "ids must have shape (B, L), or inputs_embeds (B, L, E); got "
                f"embeddings of shape {tuple(x.shape)}"
            )
        if caches is not None:
            validation.caches(caches, len(self.blocks))
        if not isinstance(logits_to_keep, Tensor):
            arguments.count("logits_to_keep", logits_to_keep, 0)
        lengths = validation.lengths(lengths, x, attention_mask=attention_mask)
        if lengths is not None and not caches:
            attention_mask = ragged.real(lengths, x.shape[1])
        texts = None
        if cu_seqlens is not None:
            texts = packing.packed_texts(
                cu_seqlens, x, attn_mask, lengths=lengths, caches=caches,
                attention_mask=attention_mask, memory=memory,
            )  # fmt: skip
            positions = texts.positions if positions is None else positions
        if positions is None:
            length = x.shape[1]
            positions = torch.arange(length, device=x.device)
            if caches:
                positions = caches[0].positions(length).to(x.device)
            if lengths is not None:  # padding needs no position of its own
                last = positions[..., :1] + lengths[:, None] - 1  # (B, 1)
                positions = positions.minimum(last.clamp(min=0))
        validation.positions("positions", positions, x)
        x = self._embed(x, positions, segments)  # (B, L, E)
        padding = _to_padding_mask("attention_mask", attention_mask, x, caches)
        kwargs: dict[str, Any] = {
            "attn_mask": attn_mask,
            "is_causal": is_causal,
            "key_padding_mask": padding,
            "memory": memory,
            "memory_key_padding_mask": _to_padding_mask(
                "memory_attention_mask", memory_attention_mask, memory
            ),
            "positions": positions,
            "position_embeddings": self.rope and self.rope(positions),
            "need_weights": need_weights,
        }
        if lengths is not None and caches:
            kwargs["lengths"] = lengths
        all_weights = []
        for i, block in enumerate(self.blocks):
            own = kwargs
            if texts is not None:
                own = kwargs | texts.options(block.attention)
            x = block(x, cache=caches[i] if caches else None, **own)
            if need_weights:
                x, weights = x
                all_weights.append(weights)
        x = x if self.final_norm is None else self.final_norm(x)
        if self.head is not None:
            x = self.head(_last(x, logits_to_keep, lengths))
            if self.final_softcap is not None:
                x = self.final_softcap * torch.tanh(x / self.final_softcap)
        return (x, all_weights) if need_weights else x

    def _embedded(self, ids: Any) -> Tensor:
        """Return the embeddings of tokens, ``(B, L, E)``."""
        arguments.tensor("ids", ids)
        if ids.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"ids must be integers; got {ids.dtype}")
        try:
            return self.token_embedding(ids)
        except IndexError:
            raise ValueError(
                f"ids must be 0 to {self.config.vocab_size - 1}; got "
                f"{int(ids.min())} to {int(ids.max())}"
            ) from None

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
        else:
            arguments.absent("for a model without them", segments=segments)
        if self.positions is not None:
            x = x + self.positions(positions).to(x.dtype)
        x = x if self.embed_norm is None else self.embed_norm(x)
        return self.dropout(x)

    @arguments.named(of=forward)
    def loss(
        self, ids: Tensor, labels: Tensor | None = None, **inputs: Any
    ) -> Tensor:
        """Return the mean cross-entropy of each next token, in nats.

        Args:
            ids: token ids, ``(B, L)``, ``L`` at least 2.
            labels: the token ids, ``(B, L)``, with -100 in the place of each
                that is not to be predicted: padding, or a prompt. As in
                transformers they are shifted here: the logits of a token
                meet the label of the next one. ``ids`` when None; with
                ``cu_seqlens`` the first token of a text is never predicted.
            inputs: other arguments of ``forward``.

        Returns:
            A scalar, about ``ln V`` before training; NaN if nothing is to be
            predicted.

        Raises:
            ValueError, TypeError: an argument is wrong.
        """
        if self.head is None or ids.shape[1] < 2:
            raise ValueError(
                "loss needs a head, and ids (B, L) of two tokens or more; got "
                f"head={self.config.head} and shape {tuple(ids.shape)}"
            )
        logits = self(ids, **inputs)  # (B, L, V)
        target = packing.next_tokens(ids, labels, inputs.get("cu_seqlens"))
        return F.cross_entropy(
            logits[:, :-1].flatten(0, 1).float(), target.flatten()
        )


def _last(x: Tensor, count: int | Tensor, lengths: Tensor | None) -> Tensor:
    """Return the last real tokens of each row, ``(B, count, E)``; 0 is all."""
    if isinstance(count, Tensor):
        return x[:, count]
    if lengths is None or not count:
        return x[:, -count:]
    new = torch.arange(count, device=x.device)
    index = (lengths[:, None] - count + new).clamp(min=0)  # (B, count)
    return x.gather(1, index[..., None].expand(-1, -1, x.shape[2]))


def _to_padding_mask(
    name: str,
    mask: Tensor | None,
    x: Tensor | None,
    caches: Sequence[Cache] | None = None,
) -> Tensor | None:
    """Convert transformers' ``attention_mask`` to a ``key_padding_mask``."""
    if mask is None:
        return None
    if not isinstance(mask, Tensor):
        raise TypeError(
            f"{name} must be a tensor (B, L), 1 for a real token; got "
            f"{type(mask).__name__}: a Mask is an attn_mask"
        )
    if x is None:
        raise ValueError(f"{name} must be None without memory; got a tensor")
    lengths: tuple[int, ...] = (x.shape[1],)
    if caches:  # a static one also takes a mask of its capacity
        each = [cache.mask_lengths(x.shape[1]) for cache in caches]
        lengths = max(each, key=lambda found: len(found))
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
