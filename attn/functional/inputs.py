"""The one contract of every attention function, checked in one place.

``read`` turns the arguments of ``scaled_dot_product_attention`` into a
``Call``: the same arguments, known to be good, with their sizes named. Each
implementation starts from it, so a mistake gets the same clear answer from
all of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from attn.functional import validation
from attn.functional.validation import Window
from attn.masks import Mask, causal
from attn.masks import window as window_mask

__all__ = ["Call", "read"]

EVERY = slice(None)


@dataclass(frozen=True, eq=False)
class Call:
    """One checked call. Sizes use the alphabet of the book.

    ``mask`` holds everything that depends on positions (``is_causal``,
    ``window`` and a ``Mask`` given as ``attn_mask``) as one ``Mask``;
    ``attn_mask`` holds a mask that came as a tensor. Both apply.
    """

    query: Tensor  # (..., H, L, D)
    key: Tensor  # (..., Hkv, S, D)
    value: Tensor  # (..., Hkv, S, Dv)
    attn_mask: Tensor | None  # broadcastable to (..., H, L, S)
    mask: Mask | None
    dropout_p: float
    scale: float
    softcap: float | None
    sinks: Tensor | None  # (H,)
    q_offset: int | Tensor  # or (B,)
    batch_shape: torch.Size
    num_heads: int
    num_kv_heads: int
    q_len: int
    kv_len: int

    @property
    def group_size(self) -> int:
        """Query heads per key/value head, ``G``; 1 when there are none."""
        return self.num_heads // self.num_kv_heads if self.num_heads else 1

    @property
    def compute_dtype(self) -> torch.dtype:
        """float32, or float64 for float64 input."""
        is_double = self.query.dtype == torch.float64
        return torch.float64 if is_double else torch.float32

    @property
    def wants_gradient(self) -> bool:
        """Whether autograd will ask for a gradient of the three tensors."""
        tensors = (self.query, self.key, self.value)
        return torch.is_grad_enabled() and any(
            x.requires_grad for x in tensors
        )

    @property
    def scores_shape(self) -> tuple[int, ...]:
        """``(..., H, L, S)``, as many axes as the inputs have."""
        rank = max(self.query.dim(), self.key.dim(), self.value.dim())
        heads = (self.num_heads,) if rank > 2 else ()
        return (*self.batch_shape, *heads, self.q_len, self.kv_len)

    def four_axes(self, x: Tensor) -> Tensor:
        """One of the tensors as ``(B, H, L, D)``, expanded over the batch,
        without a copy if it can."""
        if x.dim() < 3:
            x = x[None]
        x = x.expand(*self.batch_shape, *x.shape[-3:])
        return x.reshape(self.batch_shape.numel(), *x.shape[-3:])

    def tuning_key(self, return_lse: bool = False) -> tuple[Hashable, ...]:
        """Return what all calls share that take equally long.

        Args:
            return_lse: whether the lse is computed too.
        """
        tensors = (self.query, self.key, self.value)
        given, start = self.attn_mask, self.q_offset
        return (
            self.query.device,
            self.query.dtype,
            *(tuple(x.shape) for x in tensors),
            None if given is None else (given.dtype, tuple(given.shape)),
            str(self.mask),
            start if isinstance(start, int) else "by row",
            bool(self.dropout_p),
            self.softcap,
            self.sinks is None,
            self.wants_gradient,
            return_lse,
            torch.get_num_threads(),
        )

    def allowed(
        self, rows: slice = EVERY, columns: slice = EVERY
    ) -> Tensor | None:
        """``mask`` as booleans, in the rank of the scores; None: no mask.

        Args:
            rows, columns: queries and keys of a tile; all when left out.

        Returns:
            bool, broadcastable to ``(..., H, L, S)`` of the tile.
        """
        if self.mask is None:
            return None
        top, bottom, _ = rows.indices(self.q_len)
        left, right, _ = columns.indices(self.kv_len)
        dense = self.mask.shift(kv=left).dense(
            bottom - top,
            right - left,
            batch=self.batch_shape.numel(),
            heads=self.num_heads,
            q_offset=self.q_offset + top,
            device=self.query.device,
        )  # (B, H, L, S)
        rank = len(self.scores_shape)
        if rank < 4:
            return dense[(0,) * (4 - rank)]
        return dense.unflatten(0, self.batch_shape) if rank > 4 else dense


def read(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    window: Window | None = None,
    q_offset: int | Tensor | None = None,
) -> Call:
    """Check the arguments of an attention call and name their sizes.

    Args:
        query, key, value, attn_mask, dropout_p, is_causal, scale: as in
            ``attn.scaled_dot_product_attention``.
        enable_gqa, softcap, sinks, window, q_offset: as in
            ``attn.scaled_dot_product_attention``.

    Returns:
        The checked call.

    Raises:
        TypeError, ValueError: an argument is wrong; the message names the
            argument, what it got and what it needs.
    """
    validation.tensors(query, key, value)
    batch_shape = validation.batch_shape(query, key, value)
    num_heads, num_kv_heads = _heads(query), _heads(key)
    q_len, kv_len = query.shape[-2], key.shape[-2]
    validation.heads(num_heads, num_kv_heads, _heads(value), enable_gqa)
    for name, flag in (("is_causal", is_causal), ("enable_gqa", enable_gqa)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} is {flag!r}: it needs True or False")

    mask = attn_mask if isinstance(attn_mask, Mask) else None
    bounds = validation.window(window)
    if bounds is not None:
        mask = _both(window_mask(*bounds), mask)
    if q_offset is None and q_len != kv_len and mask and mask.uses_query:
        _ambiguous(mask, q_len, kv_len)
    if is_causal:
        mask = _both(causal(), mask)

    rank = max(query.dim(), key.dim(), value.dim())
    heads_shape = (num_heads,) if rank > 2 else ()
    scores_shape = (*batch_shape, *heads_shape, q_len, kv_len)
    if isinstance(attn_mask, Mask):
        attn_mask = None
    validation.attn_mask(attn_mask, query, scores_shape)
    return Call(
        query=query,
        key=key,
        value=value,
        attn_mask=attn_mask,
        mask=mask,
        dropout_p=validation.dropout(dropout_p),
        scale=validation.scale(scale, query.shape[-1]),
        softcap=validation.softcap(softcap),
        sinks=validation.sinks(sinks, query, num_heads),
        q_offset=validation.q_offset(q_offset, query, batch_shape),
        batch_shape=batch_shape,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        q_len=q_len,
        kv_len=kv_len,
    )


def _both(first: Mask, second: Mask | None) -> Mask:
    return first if second is None else first & second


def _heads(x: Tensor) -> int:
    return x.shape[-3] if x.dim() > 2 else 1


def _ambiguous(mask: Mask, q_len: int, kv_len: int) -> NoReturn:
    raise ValueError(
        f"query has {q_len} positions and key {kv_len}, and {mask} needs to "
        "know where the queries start: q_offset=0 when both start together, "
        f"q_offset={kv_len - q_len} when the queries are the last tokens "
        "(decoding)"
    )
