"""The contract for the kernels: which calls they support, and how.

Triton is imported by the first call that may need it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.functional import validation
from attn.functional.inputs import AttentionInputs, validate
from attn.functional.validation import Window
from attn.kernels.configs import UNBOUNDED
from attn.masks import Mask

__all__ = [
    "Band",
    "band_of",
    "fused",
    "fused_attention",
    "unsupported_reasons",
]

MAX_HEAD_DIM = 256


@arguments.named()
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
    """Compute FlashAttention with the book's own kernels.

    Arguments and result are those of ``attn.scaled_dot_product_attention``;
    scores, softmax and sums are float32. ``dropout_p`` must be 0, and a
    ``Mask`` made of ``causal``, ``sliding_window``, ``window`` and
    ``padding``.

    Raises:
        TypeError, ValueError: an argument is wrong, or the kernels do not
            support the call (with the reasons).

    Example:
        >>> from attn.kernels import fused_attention
        >>> query, key, value = torch.randn(3, 1, 2, 20, 16)
        >>> out = fused_attention(query, key, value, is_causal=True)
        >>> exact = attn.attention(query, key, value, is_causal=True)
        >>> torch.allclose(out, exact, atol=1e-5)
        True

    Source: Dao et al. 2022, 2023.
    """
    inputs = validate(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa,
        softcap=softcap, sinks=sinks, window=window, q_offset=q_offset,
    )  # fmt: skip
    if reasons := unsupported_reasons(inputs):
        raise ValueError(f"fused_attention cannot: {'; '.join(reasons)}")
    return fused(inputs, return_lse)


def fused(
    inputs: AttentionInputs, return_lse: bool = False, variant: str = ""
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute ``fused_attention`` on inputs that the kernels support.

    ``variant`` is one of ``configs.VARIANTS``; that of the table when empty.
    """
    from attn.kernels.forward import forward

    band = band_of(inputs)
    assert isinstance(band, Band)
    query, key, value = map(inputs.to_4d, inputs.qkv)
    batch = len(query)
    mask, valid = inputs.attn_mask, band.valid
    if mask is not None:
        mask = inputs.to_4d(mask.expand(inputs.scores_shape))
        mask = mask.view(torch.uint8) if mask.dtype == torch.bool else mask
    if valid is not None:
        valid = valid.expand(batch, -1).contiguous()
        valid = valid.view(torch.uint8)
    start = inputs.q_offset
    if isinstance(start, int):  # filled there: a copy would wait for the GPU
        start = query.new_full((batch,), start, dtype=torch.int32)
    start = start.to(query.device, torch.int32).expand(batch).contiguous()
    out, lse = forward(
        query, key, value, mask, valid, inputs.sinks, start,
        inputs.scale, inputs.softcap or 0.0, band.left, band.right,
        variant=variant,
    )  # fmt: skip
    out = inputs.from_4d(out)
    return (out, inputs.from_4d(lse)) if return_lse else out


def unsupported_reasons(inputs: AttentionInputs) -> list[str]:
    """Return why the kernels cannot compute a call; empty when they can."""
    try:
        from attn.kernels.tile import INTERPRETED
    except ImportError as error:
        missing = error.name or "triton"
        return [f"{missing} is not installed: pip install triton"]
    reasons = []
    query = inputs.query
    if not INTERPRETED and query.device.type != "cuda":
        reasons.append(
            f"query is on {query.device}: the kernels need a GPU, or "
            "TRITON_INTERPRET=1 before triton is imported"
        )
    if query.dtype == torch.float64:
        reasons.append("query is float64: the kernels compute in float32")
    for name, x in (("query", query), ("value", inputs.value)):
        if not 0 < x.shape[-1] <= MAX_HEAD_DIM:
            reasons.append(
                f"{name} has head_dim {x.shape[-1]}: the kernels support 1 "
                f"to {MAX_HEAD_DIM}"
            )
    if inputs.is_forward_mode:
        reasons.append("a forward-mode gradient: the kernels have none")
    elif tracing.in_functorch():
        reasons.append("a transform of torch.func: the kernels take none")
    if inputs.dropout_p:
        reasons.append(
            f"dropout_p is {inputs.dropout_p}: the kernels have no dropout"
        )
    if validation.needs_grad(inputs.attn_mask):
        reasons.append(
            "attn_mask requires a gradient: the kernels give none, use "
            "attn.grouped_attention"
        )
    band = band_of(inputs)
    if not isinstance(band, Band):
        reasons.append(band)
    return reasons


class Band(NamedTuple):
    """A conjunction of mask terms, in the kernels' form."""

    left: int = UNBOUNDED
    right: int = UNBOUNDED
    valid: Tensor | None = None  # (B, S) or (1, S), bool


def band_of(inputs: AttentionInputs) -> Band | str:
    """Return ``inputs.mask`` in the kernels' form, or why it has none."""
    mask, device, kv_len = inputs.mask, inputs.query.device, inputs.kv_len
    if mask is None:
        return Band()
    valid = None
    for term in mask.terms:
        if term.kind in ("padding", "lengths"):
            (data,) = term.values
            if data.device != device:
                return f"padding is on {data.device} and query on {device}"
            own = (
                data[:, :kv_len]
                if term.kind == "padding"
                else (torch.arange(kv_len, device=device) < data[:, None])
            )
            valid = own if valid is None else valid & own
        elif term.kind not in ("causal", "window"):
            return (
                f"the mask has a term {term.kind!r}: the kernels support "
                "causal, sliding_window, window and padding; Mask.dense gives "
                "a tensor, which they support"
            )
    left, right = (
        UNBOUNDED if x is None else min(x, UNBOUNDED) for x in mask.bounds
    )
    return Band(left, right, valid)
