"""Padding, caches and refused arguments of layers with a state."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attn import arguments
from attn.cache import Cache, StateCache, ragged
from attn.masks import Mask
from attn.nn import validation


class Mixed(NamedTuple):
    """The result of a layer for the tokens of one call."""

    out: Tensor  # (B, L, E)
    state: Tensor  # (B, H, D, Dv)
    conv: Tensor | None = None  # (B, K - 1, E')


class StateLayer(nn.Module):
    """A causal layer whose memory is a state, not keys and values.

    A subclass defines ``mix``. Padding, on either side or between tokens,
    does not enter state or convolution: real tokens are moved to the front,
    and each row ends after its own.

    Example:
        >>> isinstance(attn.nn.GatedDeltaNet(8, 2), attn.nn.StateLayer)
        True
    """

    embed_dim: int

    def new_cache(self) -> StateCache:
        """Return an empty cache of the kind that the layer writes to."""
        return StateCache()

    def mix(
        self,
        x: Tensor,
        real: Tensor | None,
        state: Tensor | None,
        conv: Tensor | None,
        cu_seqlens: Tensor | None,
    ) -> Mixed:
        """Compute ``(B, L, E)``; padding, if any, is last in each row.

        Args:
            x: ``(B, L, E)``.
            real: True for a real token, ``(B, L)``; all are when None.
            state, conv: before these tokens; None at the start.
            cu_seqlens: of texts packed into one row.
        """
        raise NotImplementedError

    @arguments.named()
    def forward(
        self,
        query: Tensor,
        attn_mask: Tensor | Mask | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
        need_weights: bool = False,
        average_attn_weights: bool = True,
        positions: Tensor | None = None,
        position_embeddings: Any = None,
        cache: Cache | None = None,
        lengths: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> Tensor:
        """Compute one layer, in the place of ``MultiHeadAttention``.

        Args:
            query: ``(B, L, E)``.
            attn_mask, need_weights: must be left at their defaults: a state
                has neither pairs nor weights.
            key_padding_mask: ``(B, L)``, True = **padding**; with a cache,
                of all tokens. Outputs of padding are 0.
            is_causal: True or None: a state holds no later token.
            average_attn_weights, positions, position_embeddings: unused; the
                order is in the recurrence.
            cache: a ``StateCache``, which is brought up to date.
            lengths: number of real tokens in each row, ``(B,)``, which come
                first.
            cu_seqlens: starts and end of texts packed into one row, integers
                ``(N + 1,)``; without a cache or padding.

        Returns:
            ``(B, L, E)``.

        Raises:
            ValueError, TypeError: an argument is wrong.
        """
        x = query
        validation.tokens("query", x, self.embed_dim)
        _refuse(attn_mask, need_weights, is_causal)
        if cache is not None and not isinstance(cache, StateCache):
            raise TypeError(
                f"cache must be a StateCache for {type(self).__name__}; got "
                f"{type(cache).__name__}, which stores keys and values"
            )
        lengths = validation.lengths(
            lengths, x, key_padding_mask=key_padding_mask
        )
        real = _real_tokens(x, key_padding_mask, lengths, cache)
        if cache is not None or real is not None:
            why = "with a cache or padding: packed texts have none"
            arguments.absent(why, cu_seqlens=cu_seqlens)
        order = None
        if real is not None and lengths is None:  # move them to the front
            order = (~real).to(torch.uint8).argsort(dim=-1, stable=True)
            real = real.gather(1, order)
            x = _take(x, order)
        state = conv = None
        if cache is not None:
            state, conv = cache.state, cache.conv
            cu_seqlens = cache.cu_seqlens
        out, state, conv = self.mix(x, real, state, conv, cu_seqlens)
        if real is not None:
            out = out.masked_fill(~real[..., None], 0.0)
        if order is not None:
            out = _take(out, order.argsort(-1))
        if cache is not None:
            # Padding counts as read, as in the other caches of a model.
            cache.update(
                state, conv, x.shape[1] if lengths is None else lengths
            )
        return out


def last_tokens(seen: Tensor, real: Tensor, before: int) -> Tensor:
    """Return the last real tokens of each row, of ``before`` and new ones."""
    count = real.sum(-1)
    lengths = count * 0 + before
    return ragged.take(seen[:, None], count, lengths, before)[:, 0]


def _take(x: Tensor, order: Tensor) -> Tensor:
    return x.gather(1, order[..., None].expand_as(x))


def _refuse(
    attn_mask: Any, need_weights: bool, is_causal: bool | None
) -> None:
    """Refuse what only pairs of tokens have."""
    if attn_mask is not None:
        raise ValueError(
            "attn_mask must be None for a layer with a state, which sees all "
            "tokens before: padding is a key_padding_mask; got a mask"
        )
    if need_weights:
        raise ValueError(
            "need_weights must be False for a layer with a state, which has "
            "no attention weights; got True"
        )
    refuse_later(is_causal)


def refuse_later(is_causal: bool | None) -> None:
    """Require causality."""
    if is_causal is False:
        raise ValueError(
            "is_causal must be True or None for a layer with a state, which "
            "holds no later token; got False"
        )


def _real_tokens(
    x: Tensor,
    key_padding_mask: Tensor | None,
    lengths: Tensor | None,
    cache: StateCache | None,
) -> Tensor | None:
    """Return which of the new tokens are real, bool ``(B, L)``, or None."""
    B, L, _ = x.shape
    if lengths is not None:
        return ragged.real(lengths, L)
    if key_padding_mask is None:
        return None
    read = 0 if cache is None else cache.seq_len
    if isinstance(read, Tensor):
        why = "with a cache whose rows have different lengths"
        arguments.absent(why, key_padding_mask=key_padding_mask)
    mask = key_padding_mask
    if mask.dtype != torch.bool:
        raise TypeError(
            "key_padding_mask must be bool, True = padding, for a layer with "
            f"a state; got {mask.dtype}"
        )
    # A static cache beside this one has a mask of its capacity.
    enough = mask.shape[-1] >= read + L if cache else mask.shape[-1] == L
    if mask.dim() != 2 or mask.shape[0] != B or not enough:
        raise ValueError(
            f"key_padding_mask must have shape ({B}, {read + L}), of all "
            f"tokens; got {tuple(mask.shape)}"
        )
    return ~mask[:, read : read + L]
