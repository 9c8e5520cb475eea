"""The ``BlockMask`` of a call, built once for all layers of a model."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attn.functional.inputs import AttentionInputs
from attn.masks import Mask

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

__all__ = ["block_mask"]


def block_mask(inputs: AttentionInputs) -> BlockMask | None:
    """Return FlexAttention's form of ``inputs.mask``; None without one."""
    mask = inputs.mask
    if mask is None:
        return None
    key = _MaskKey(mask)
    batch = inputs.batch_shape.numel()
    # Of the known terms, only padding and documents depend on the batch row.
    rows = batch if key.opaque or mask.extent.batch is not None else None
    heads = inputs.num_heads if key.opaque else None
    sizes = (inputs.q_len, inputs.kv_len, rows, heads, inputs.q_offset)
    return _cached(key, *sizes, inputs.query.device)


class _MaskKey:
    """A mask as a cache key: equal terms over the same tensors are equal.

    The cache entry keeps the mask's tensors alive, so their ids stay unique.
    """

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self.opaque = any(term.kind == "opaque" for term in mask.terms)
        self.key: tuple[Any, ...] = (id(mask),)
        if not self.opaque:
            self.key = tuple(map(_term_key, mask.terms))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _MaskKey) and self.key == other.key


def _term_key(term: Any) -> tuple[Any, ...]:
    values = (
        (id(x), x._version) if isinstance(x, Tensor) else x
        for x in term.values
    )
    return (term.kind, *values)


@functools.lru_cache(maxsize=16)
def _cached(
    key: _MaskKey,
    q_len: int,
    kv_len: int,
    batch: int | None,
    heads: int | None,
    q_offset: int,
    device: torch.device,
) -> BlockMask:
    return key.mask.block_mask(
        q_len,
        kv_len,
        batch=batch,
        heads=heads,
        q_offset=q_offset,
        device=device,
    )
