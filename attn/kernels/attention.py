"""The whole contract for the kernels: which calls they take, and how."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attn.functional.inputs import Call, read
from attn.functional.validation import Window
from attn.kernels.launch import FAR, can_run
from attn.kernels.operator import fused
from attn.masks import Mask

__all__ = [
    "Band",
    "band_of",
    "fused_attention",
    "fused_call",
    "why_not",
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
            ``why_not`` gives the reasons.

    Source: Dao et al. 2022, 2023.
    """
    call = read(
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
    return fused_call(call, return_lse)


def fused_call(
    call: Call, return_lse: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The same, of arguments that have been checked."""
    query, key, value = call.query, call.key, call.value
    reasons = why_not(call)
    if reasons:
        raise ValueError(f"fused_attention cannot: {'; '.join(reasons)}")
    band = band_of(call.mask, call.query.device)
    assert isinstance(band, Band)
    rank = max(query.dim(), key.dim(), value.dim())
    batch = call.batch_shape.numel()
    q, k, v = map(call.four_axes, (query, key, value))
    mask = call.attn_mask
    if mask is not None:
        mask = mask.view(torch.uint8) if mask.dtype == torch.bool else mask
        while mask.dim() < rank:
            mask = mask[None]
        mask = mask.expand(*call.scores_shape)
        if rank < 4:
            mask = mask[(None,) * (4 - rank)]
        mask = mask.reshape(batch, *mask.shape[-3:]) if rank > 4 else mask
    valid = band.valid
    if valid is not None and call.mask is not None:
        call.mask.check_reach(call.q_len, call.kv_len, batch, call.q_offset)
        valid = valid[:, : call.kv_len].expand(batch, -1).contiguous()
        valid = valid.view(torch.uint8)
    offset = torch.as_tensor(call.q_offset, device=q.device)
    offset = offset.to(torch.int32).expand(batch).contiguous()
    out, lse = fused(
        q,
        k,
        v,
        mask,
        valid,
        call.sinks if call.sinks is None else call.sinks.reshape(-1),
        offset,
        call.scale,
        call.softcap or 0.0,
        band.left,
        band.right,
    )
    shape = call.scores_shape[:-1]
    out = out.reshape(*shape, out.shape[-1])
    return (out, lse.reshape(shape)) if return_lse else out


def why_not(call: Call) -> list[str]:
    """Why the kernels cannot take a call; empty when they can."""
    reasons = []
    device = can_run(call.query.device)
    if device:
        reasons.append(device)
    if call.query.dtype == torch.float64:
        reasons.append("query is float64: the kernels compute in float32")
    for name, x in (("query", call.query), ("value", call.value)):
        if not 0 < x.shape[-1] <= LARGEST_HEAD:
            reasons.append(
                f"{name} has head_dim {x.shape[-1]}: the kernels take 1 to "
                f"{LARGEST_HEAD}"
            )
    if call.dropout_p:
        reasons.append(f"dropout_p is {call.dropout_p}: they drop nothing")
    if call.attn_mask is not None and call.attn_mask.requires_grad:
        reasons.append("attn_mask requires a gradient: they give it none")
    band = band_of(call.mask, call.query.device)
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
