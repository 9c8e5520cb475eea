"""One registry of mask formats, for backends and for transformers' models.

A mask is a tensor or, where positions are enough, a ``MaskSpec``. An
attention function takes it in one format:

``"bool"``      one tensor of booleans, True = may attend
``"additive"``  one float tensor, added to the scores: 0 or the least number
``"block"``     a ``BlockMask`` of FlexAttention
``"spec"``      the ``MaskSpec`` itself
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attn.functional.inputs import AttentionInputs
from attn.masks import Mask
from attn.masks.values import tensors_read

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

__all__ = ["FORMATS", "MaskSpec", "convert", "unsupported", "with_booleans"]

FORMATS = ("bool", "additive", "block", "spec")


@dataclass(frozen=True)
class MaskSpec:
    """A mask that needs no tensor: ``attn_mask`` and ``q_offset`` of a call.

    ``q_offset`` is the position of the first query among the keys, and
    ``sizes`` are the other arguments of ``Mask.dense``.

    Example:
        >>> mask = attn.causal() & attn.sliding_window(2)
        >>> spec = attn.hf.MaskSpec(mask, 2, {"q_len": 1, "kv_len": 3})
        >>> spec.dense()[0, 0].long()
        tensor([[0, 1, 1]])
    """

    mask: Mask
    q_offset: int
    sizes: dict[str, Any]

    def dense(self) -> Tensor:
        """Return the mask as booleans, ``(B, 1, L, S)``."""
        return self.mask.dense(q_offset=self.q_offset, **self.sizes)

    def contiguous(self) -> Tensor:
        """Return ``dense``, in memory of its own.

        ``generate`` of transformers calls it for a static cache, and passes
        on the result, which must be a tensor.
        """
        return self.dense().contiguous()


def unsupported(mask: Tensor | None, mask_format: str) -> list[str]:
    """Return why a format cannot express a mask given as a tensor."""
    if mask is None or mask_format == "additive":
        return []
    if mask_format != "bool":
        return ["attn_mask is a tensor: pass a Mask"]
    is_bias = mask.dtype != torch.bool
    return ["attn_mask is a float bias: pass booleans"] if is_bias else []


def convert(
    mask: Tensor | MaskSpec, mask_format: str, dtype: torch.dtype
) -> Any:
    """Return a mask in a format that can express it.

    ``dtype`` is that of an additive mask made of booleans.
    """
    if mask_format == "spec":
        return mask
    if mask_format == "block":
        assert isinstance(mask, MaskSpec)
        return _block_mask(mask)
    if isinstance(mask, MaskSpec):
        mask = mask.dense()
    if mask_format == "bool" or mask.dtype != torch.bool:
        return mask
    zero = torch.zeros((), dtype=dtype, device=mask.device)
    return torch.where(mask, zero, torch.finfo(dtype).min)


def _block_mask(spec: MaskSpec) -> BlockMask:
    """Return FlexAttention's form, built once for all layers of a model."""
    mask, sizes = spec.mask, spec.sizes
    opaque = any(term.kind == "opaque" for term in mask.terms)
    # Of the known terms, those of padding and documents depend on the row.
    by_row = opaque or mask.extent.batch is not None
    return _cached(
        _Keyed(mask, _opaque_key(mask) if opaque else _terms_key(mask)),
        sizes["q_len"],
        sizes["kv_len"],
        batch=sizes["batch"] if by_row else None,
        heads=sizes.get("heads") if opaque else None,
        q_offset=spec.q_offset,
        device=sizes["device"] or "cpu",
    )


@dataclass(frozen=True)
class _Keyed:
    """A mask as a cache key: equal terms over the same tensors are equal.

    The cache entry keeps the mask's tensors alive, so their ids stay unique.
    """

    mask: Mask = field(compare=False)
    key: tuple[Any, ...]


def _terms_key(mask: Mask) -> tuple[Any, ...]:
    return tuple(
        (term.kind, *map(_version, term.values)) for term in mask.terms
    )


def _opaque_key(mask: Mask) -> tuple[Any, ...]:
    return (id(mask), *map(_version, tensors_read(mask)))


def _version(x: Any) -> Any:
    """Return what tells a tensor's values from those of before."""
    if not isinstance(x, Tensor):
        return x
    return id(x), object() if x.is_inference() else x._version


@functools.lru_cache(maxsize=16)
def _cached(keyed: _Keyed, *lengths: int, **options: Any) -> BlockMask:
    return keyed.mask.block_mask(*lengths, **options)


def with_booleans(
    function: Callable[..., Any],
    declared: Collection[str] | None,
    unsupported_reasons: Callable[[AttentionInputs], list[str]],
) -> tuple[Callable[..., Any], Callable[[AttentionInputs], list[str]]]:
    """Adapt an implementation that takes its mask in the format ``"bool"``.

    Returned are two functions of ``AttentionInputs``: the implementation, and
    the reasons why it cannot compute a call. ``declared`` are the keywords of
    ``function``, None for any.
    """

    def run(inputs: AttentionInputs, **keywords: Any) -> Any:
        keywords |= {"scale": inputs.scale, **_options(inputs)}
        return function(*inputs.qkv, inputs.allowed(), **keywords)

    def reasons(inputs: AttentionInputs) -> list[str]:
        reasons = unsupported_reasons(inputs)
        missing = [
            f"{name} is given: its function declares none"
            for name in _options(inputs)
            if declared is not None and name not in declared
        ]
        return [*reasons, *unsupported(inputs.attn_mask, "bool"), *missing]

    return run, reasons


def _options(inputs: AttentionInputs) -> dict[str, Any]:
    """Return the options of a call that differ from their defaults."""
    options = {
        "dropout_p": inputs.dropout_p or None,
        "softcap": inputs.softcap,
        "sinks": inputs.sinks,
        "enable_gqa": inputs.group_size > 1 or None,
    }
    return {name: x for name, x in options.items() if x is not None}
