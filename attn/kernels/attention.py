"""The whole contract for the kernels: which calls they take, and how."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attn.functional.inputs import AttentionInputs, validate
from attn.functional.validation import Window
from attn.kernels import operator
from attn.kernels.launch import FAR, can_run
from attn.masks import Mask

__all__ = [
    "Band",
    "band_of",
    "fused_attention",
    "fused",
    "unsupported_reasons",
]

LARGEST_HEAD = 256


class Band(NamedTuple):
    """What a conjunction of mask terms says, as far as kernels know it."""

    left: int = FAR
    right: int = FAR
    valid: Tensor | None = None  # (B, S) or (1, S), bool


def fused_attention(
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
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """FlashAttention, by the book's own kernels.

    Args:
        query, key, value, attn_mask: as in
            ``attn.scaled_dot_product_attention``; a ``Mask`` may be made of
            ``causal``, ``sliding_window``, ``window`` and ``padding``.
        dropout_p: 0.0; the kernels have none.
        is_causal, scale, enable_gqa: as there.
        softcap, sinks, window, q_offset, return_lse: as there.

    Returns:
        As ``attn.scaled_dot_product_attention``; scores, softmax and sums
        are float32.

    Raises:
        TypeError, ValueError: as there, or the kernels cannot take the call;
            ``unsupported_reasons`` gives the reasons.

    Source: Dao et al. 2022, 2023.
    """
    inputs = validate(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale,
        enable_gqa,
        softcap=softcap,
        sinks=sinks,
        window=window,
        q_offset=q_offset,
    )
    return fused(inputs, return_lse)


def fused(
    inputs: AttentionInputs, return_lse: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The same, of arguments that have been checked."""
    query, key, value = inputs.query, inputs.key, inputs.value
    reasons = unsupported_reasons(inputs)
    if reasons:
        raise ValueError(f"fused_attention cannot: {'; '.join(reasons)}")
    band = band_of(inputs.mask, inputs.query.device)
    assert isinstance(band, Band)
    rank = max(query.dim(), key.dim(), value.dim())
    batch = inputs.batch_shape.numel()
    q, k, v = map(inputs.to_4d, (query, key, value))
    mask = inputs.attn_mask
    if mask is not None:
        mask = mask.view(torch.uint8) if mask.dtype == torch.bool else mask
        while mask.dim() < rank:
            mask = mask[None]
        mask = mask.expand(*inputs.scores_shape)
        if rank < 4:
            mask = mask[(None,) * (4 - rank)]
        mask = mask.reshape(batch, *mask.shape[-3:]) if rank > 4 else mask
    valid = band.valid
    if valid is not None and inputs.mask is not None:
        inputs.mask.check_bounds(
            inputs.q_len, inputs.kv_len, batch, inputs.q_offset
        )
        valid = valid[:, : inputs.kv_len].expand(batch, -1).contiguous()
        valid = valid.view(torch.uint8)
    offset = inputs.q_offset
    if isinstance(offset, int):  # filled there: a copy would wait for the GPU
        offset = q.new_full((batch,), offset, dtype=torch.int32)
    offset = offset.to(q.device, torch.int32).expand(batch).contiguous()
    out, lse = operator.fused(
        q,
        k,
        v,
        mask,
        valid,
        inputs.sinks if inputs.sinks is None else inputs.sinks.reshape(-1),
        offset,
        inputs.scale,
        inputs.softcap or 0.0,
        band.left,
        band.right,
    )
    shape = inputs.scores_shape[:-1]
    out = out.reshape(*shape, out.shape[-1])
    return (out, lse.reshape(shape)) if return_lse else out


def unsupported_reasons(inputs: AttentionInputs) -> list[str]:
    """Why the kernels cannot take a call; empty when they can."""
    reasons = []
    device = can_run(inputs.query.device)
    if device:
        reasons.append(device)
    if inputs.query.dtype == torch.float64:
        reasons.append("query is float64: the kernels compute in float32")
    for name, x in (("query", inputs.query), ("value", inputs.value)):
        if not 0 < x.shape[-1] <= LARGEST_HEAD:
            reasons.append(
                f"{name} has head_dim {x.shape[-1]}: the kernels take 1 to "
                f"{LARGEST_HEAD}"
            )
    if inputs.dropout_p:
        reasons.append(f"dropout_p is {inputs.dropout_p}: they drop nothing")
    if inputs.attn_mask is not None and inputs.attn_mask.requires_grad:
        reasons.append("attn_mask requires a gradient: they give it none")
    band = band_of(inputs.mask, inputs.query.device)
    if not isinstance(band, Band):
        reasons.append(band)
    return reasons


def band_of(mask: Mask | None, device: torch.device) -> Band | str:
    """The terms of a mask as bounds; a reason when one is not known."""
    if mask is None:
        return Band()
    valid = None
    for term in mask.terms:
        if term.kind == "padding":
            own = term.values[0]
            valid = own if valid is None else valid & own
        elif term.kind not in ("causal", "window"):
            return (
                f"{mask} has a term {term.kind!r}: they know causal, "
                "sliding_window, window and padding (Mask.dense gives a "
                "tensor, which they take)"
            )
    if valid is not None and valid.device != device:
        return f"padding is on {valid.device} and query on {device}"
    left, right = (FAR if x is None else min(x, FAR) for x in mask.bounds)
    return Band(left, right, valid)
