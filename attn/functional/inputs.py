"""The contract that every attention function shares, validated in one place.

``validate`` turns the arguments of ``scaled_dot_product_attention`` into
``AttentionInputs``: the same arguments, checked, with their sizes named. Every
implementation starts from it, so a mistake gives the same error everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.functional import validation
from attn.functional.validation import Window
from attn.masks import Mask, causal
from attn.masks import window as window_mask
from attn.masks.combine import combine_masks

__all__ = ["validate", "AttentionInputs", "AttentionOptions"]

FULL = slice(None)


class OptionsWithoutMask(TypedDict, total=False):
    """The options of a function that names ``attn_mask`` itself."""

    dropout_p: float
    is_causal: bool
    scale: float | None
    enable_gqa: bool
    softcap: float | None
    sinks: Tensor | None
    window: Window | None
    q_offset: int | Tensor | None


class AttentionOptions(OptionsWithoutMask, total=False):
    """The optional arguments of ``attn.scaled_dot_product_attention``.

    Example:
        >>> from attn.functional.inputs import AttentionOptions
        >>> options: AttentionOptions = {"is_causal": True, "softcap": 30.0}
        >>> x = torch.randn(4, 5, 8)
        >>> attn.attention(x, x, x, **options).shape
        torch.Size([4, 5, 8])
    """

    attn_mask: Tensor | Mask | None


@dataclass(frozen=True, eq=False)
class AttentionInputs:
    """The validated arguments of one call; sizes use the book's alphabet.

    ``mask`` holds everything that depends on positions (``is_causal``,
    ``window`` and a ``Mask`` given as ``attn_mask``) as one ``Mask``;
    ``attn_mask`` holds a mask given as a tensor. Both apply.

    Example:
        >>> from attn.functional.inputs import validate
        >>> x = torch.randn(2, 4, 5, 8)
        >>> inputs = validate(x, x, x, is_causal=True, window=(2, 0))
        >>> inputs.mask
        causal() & window(left=2, right=0)
        >>> inputs.scores_shape  # (B, H, L, S)
        (2, 4, 5, 5)
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
    q_offset: int | Tensor  # () or (B,)
    batch_shape: torch.Size
    num_heads: int
    num_kv_heads: int
    q_len: int
    kv_len: int
    scores_shape: tuple[int, ...]  # (..., H, L, S), of the inputs' rank

    @property
    def group_size(self) -> int:
        """Return the query heads per key/value head, ``G``; 1 for H = 0."""
        return self.num_heads // self.num_kv_heads if self.num_heads else 1

    @property
    def compute_dtype(self) -> torch.dtype:
        """Return float32, or float64 for float64 input."""
        return torch.promote_types(self.query.dtype, torch.float32)

    @property
    def requires_grad(self) -> bool:
        """Return whether autograd records any of the tensors."""
        return torch.is_grad_enabled() and self._recorded > 0

    @property
    def is_forward_mode(self) -> bool:
        """Return whether a forward-mode gradient (``jvp``) is computed."""
        return any(tracing.derivatives(x)[0] for x in self._tensors)

    @property
    def is_second_order(self) -> bool:
        """Return whether ``torch.func`` computes gradients of a gradient."""
        return tracing.in_functorch() and self._recorded > 1

    @property
    def _recorded(self) -> int:
        """Return how many gradients, one of another, record a tensor."""
        return max(tracing.derivatives(x)[1] for x in self._tensors)

    @property
    def qkv(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value."""
        return self.query, self.key, self.value

    @property
    def _tensors(self) -> list[Tensor]:
        given = (*self.qkv, self.attn_mask, self.sinks)
        return [x for x in given if x is not None]

    def to_4d(self, x: Tensor) -> Tensor:
        """Return ``(B, H, L, D)``: the batch is expanded and flattened."""
        if x.dim() == 4 and x.shape[:1] == self.batch_shape:
            return x
        if x.dim() < 3:
            x = x[None]
        x = x.expand(*self.batch_shape, *x.shape[-3:])
        return x.reshape(math.prod(self.batch_shape), *x.shape[-3:])

    def from_4d(self, x: Tensor) -> Tensor:
        """Return ``(B, H, L)`` or ``(B, H, L, Dv)`` in the inputs' rank."""
        return x.reshape(*self.scores_shape[:-1], *x.shape[3:])

    def dense_mask(self) -> Tensor | None:
        """Return ``mask`` and ``attn_mask`` as one tensor, bool or float."""
        mask = combine_masks(self.attn_mask, self.mask_tile())
        assert not isinstance(mask, Mask)
        return mask

    def allowed(self) -> Tensor | None:
        """Return ``mask`` and ``attn_mask`` as booleans, True = may attend.

        They are broadcastable to ``(..., H, L, S)``; None without a mask.

        Raises:
            ValueError: ``attn_mask`` is a float bias.
        """
        mask = self.dense_mask()
        if mask is not None and mask.dtype != torch.bool:
            raise ValueError(
                f"attn_mask must be booleans; got {mask.dtype}. dense_mask() "
                "returns biases too"
            )
        return mask

    def tuning_key(self, return_lse: bool = False) -> tuple[Hashable, ...]:
        """Return what all calls share that take equally long."""
        mask, start = self.attn_mask, self.q_offset
        return (
            self.query.device,
            self.query.dtype,
            *(tuple(x.shape) for x in self.qkv),
            self.key.stride(-1) == 1,
            None if mask is None else (mask.dtype, tuple(mask.shape)),
            str(self.mask),
            start if isinstance(start, int) else "by row",
            bool(self.dropout_p),
            self.softcap,
            self.sinks is None,
            self.requires_grad,
            return_lse,
            torch.get_num_threads(),
        )

    def mask_tile(
        self, rows: slice = FULL, columns: slice = FULL
    ) -> Tensor | None:
        """Return ``mask`` as booleans, all or a tile; None without it.

        They are broadcastable to ``(..., H, L, S)`` of the tile.
        """
        if self.mask is None:
            return None
        top, bottom = _ends(rows, self.q_len)
        left, right = _ends(columns, self.kv_len)
        dense = self.mask.shift(kv=left).tile(
            bottom - top,
            right - left,
            batch=math.prod(self.batch_shape),
            heads=self.num_heads,
            q_offset=self.q_offset + top,
            device=self.query.device,
        )  # (B, H, L, S)
        rank = len(self.scores_shape)
        if rank < 4:
            return dense[(0,) * (4 - rank)]
        return dense.unflatten(0, self.batch_shape) if rank > 4 else dense


def validate(
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
) -> AttentionInputs:
    """Validate the arguments of an attention call and name their sizes.

    Arguments and errors are those of ``attn.scaled_dot_product_attention``.

    Example:
        >>> from attn.functional.inputs import validate
        >>> query, key = torch.randn(6, 5, 8), torch.randn(2, 5, 8)
        >>> inputs = validate(query, key, key, enable_gqa=True)
        >>> inputs.num_heads, inputs.num_kv_heads, inputs.group_size
        (6, 2, 3)
        >>> validate(query, key[:, :4], key)
        Traceback (most recent call last):
            ...
        ValueError: value must have one position for each key, 4; got 5
    """
    validation.tensors(query, key, value)
    batch_shape = validation.batch_shape(query, key, value)
    num_heads, num_kv_heads = _heads(query), _heads(key)
    q_len, kv_len = query.shape[-2], key.shape[-2]
    validation.heads(num_heads, num_kv_heads, _heads(value), enable_gqa)
    for name, flag in (("is_causal", is_causal), ("enable_gqa", enable_gqa)):
        if not isinstance(flag, bool):
            arguments.flag(name, flag)

    mask = attn_mask if isinstance(attn_mask, Mask) else None
    bounds = validation.window(window)
    if bounds is not None:
        near = window_mask(*bounds)
        mask = near if mask is None else near & mask
    moves = mask is not None and mask.uses_query
    if q_offset is None and moves and q_len != kv_len:
        raise ValueError(
            f"{mask} with {q_len} query and {kv_len} key positions is "
            "ambiguous: pass q_offset=0 if queries and keys both start at "
            f"position 0, q_offset={kv_len - q_len} if the queries are the "
            "last tokens (decoding)"
        )
    if is_causal:
        mask = causal() if mask is None else causal() & mask

    rank = max(query.dim(), key.dim(), value.dim())
    heads_shape = (num_heads,) if rank > 2 else ()
    scores_shape = (*batch_shape, *heads_shape, q_len, kv_len)
    attn_mask = None if isinstance(attn_mask, Mask) else attn_mask
    if attn_mask is not None:
        validation.attn_mask(attn_mask, query, scores_shape)
    dropout_p = validation.dropout(dropout_p)
    scale = validation.scale(scale, query.shape[-1])
    softcap = validation.softcap(softcap)
    sinks = validation.sinks(sinks, query, num_heads)
    start = validation.q_offset(q_offset, query, batch_shape)
    if mask is not None:
        batch = math.prod(batch_shape)
        mask.extent.check(mask, q_len, kv_len, batch, start)
    return AttentionInputs(
        query, key, value, attn_mask, mask,
        dropout_p=dropout_p, scale=scale, softcap=softcap, sinks=sinks,
        q_offset=start,
        batch_shape=batch_shape, scores_shape=scores_shape,
        num_heads=num_heads, num_kv_heads=num_kv_heads,
        q_len=q_len, kv_len=kv_len,
    )  # fmt: skip


def _ends(part: slice, length: int) -> tuple[int, int]:
    """Return the ends of a part, without fixing a length in a graph."""
    if part.start is None and part.stop is None:
        return 0, length
    start, stop, _ = part.indices(length)
    return start, stop


def _heads(x: Tensor) -> int:
    heads = x.shape[-3] if x.dim() > 2 else 1
    return int(heads) if isinstance(heads, Tensor) else heads  # a jit trace
