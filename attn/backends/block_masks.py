"""The ``BlockMask`` of a call, built once for all layers of a model."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from attn.functional.inputs import AttentionInputs
from attn.masks import Mask, Term

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

__all__ = ["block_mask"]


def block_mask(inputs: AttentionInputs) -> BlockMask | None:
    """Return FlexAttention's form of ``inputs.mask``; None without one."""
    mask = inputs.mask
    if mask is None:
        return None
    opaque = any(term.kind == "opaque" for term in mask.terms)
    # Of the known terms, those of padding and documents depend on the row.
    by_row = opaque or mask.extent.batch is not None
    return _cached(
        _Keyed(mask, (id(mask),) if opaque else tuple(map(_key, mask.terms))),
        inputs.q_len,
        inputs.kv_len,
        batch=inputs.batch_shape.numel() if by_row else None,
        heads=inputs.num_heads if opaque else None,
        q_offset=inputs.q_offset,
        device=inputs.query.device,
    )


@dataclass(frozen=True)
class _Keyed:
    """A mask as a cache key: equal terms over the same tensors are equal.

    The cache entry keeps the mask's tensors alive, so their ids stay unique.
    """

    mask: Mask = field(compare=False)
    key: tuple[Any, ...]


def _key(term: Term) -> tuple[Any, ...]:
    values = (
        (id(x), x._version) if isinstance(x, Tensor) else x
        for x in term.values
    )
    return (term.kind, *values)


@functools.lru_cache(maxsize=16)
def _cached(keyed: _Keyed, *lengths: int, **options: Any) -> BlockMask:
    return keyed.mask.block_mask(*lengths, **options)
