"""The kernels as one operator of torch's: for autograd and torch.compile.

``torch.ops.attn.fused_attention`` takes checked tensors of four axes. What a
person calls is ``attn.kernels.fused_attention``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attn.kernels.launch import Extras, Options, run_backward, run_forward

__all__ = ["fused"]


@torch.library.custom_op("attn::fused_attention", mutates_args=())
def fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    valid: Tensor | None,
    sinks: Tensor | None,
    q_offset: Tensor | None,
    scale: float,
    softcap: float,
    left: int,
    right: int,
) -> tuple[Tensor, Tensor]:
    """``out`` and ``lse``; see ``launch.run_forward``."""
    return run_forward(
        query,
        key,
        value,
        Options(scale, softcap, left, right),
        Extras(mask, valid, sinks, q_offset),
    )


@fused.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> Any:
    B, H, L, _ = query.shape
    out = query.new_empty(B, H, L, value.shape[-1])
    return out, query.new_empty(B, H, L, dtype=torch.float32)


@torch.library.custom_op("attn::fused_attention_backward", mutates_args=())
def _fused_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    whole: Tensor,
    delta: Tensor,
    mask: Tensor | None,
    valid: Tensor | None,
    q_offset: Tensor | None,
    scale: float,
    softcap: float,
    left: int,
    right: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value; see ``launch.run_backward``."""
    return run_backward(
        grad,
        query,
        key,
        value,
        whole,
        delta,
        Options(scale, softcap, left, right),
        Extras(mask, valid, None, q_offset),
    )


@_fused_backward.register_fake
def _(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any) -> Any:
    return tuple(
        torch.empty_like(x, memory_format=torch.contiguous_format)
        for x in (query, key, value)
    )


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    query, key, value, mask, valid, sinks, q_offset, *options = inputs
    ctx.save_for_backward(
        query, key, value, mask, valid, sinks, q_offset, *output
    )
    ctx.options = options


def _backward(ctx: Any, d_out: Tensor, d_lse: Tensor) -> Any:
    *inputs, out, lse = ctx.saved_tensors
    query, key, value, mask, valid, sinks, q_offset = inputs
    whole, d_sinks = lse, None
    delta = (d_out.float() * out.float()).sum(-1)  # (B, H, L)
    if sinks is not None:
        sink = sinks.float()[:, None]  # (H, 1)
        whole = torch.logaddexp(lse, sink)
        lost = torch.exp(sink - whole) * -delta
        d_sinks = lost.sum((0, 2)).to(sinks.dtype)
    dead = lse == -torch.inf
    if d_lse is not None:  # a larger lse: every weight of the row, shifted
        share = torch.exp((whole - lse).masked_fill(dead, 0.0))
        delta = delta - d_lse * share
    grads = _fused_backward(
        d_out,
        query,
        key,
        value,
        whole.masked_fill(dead, torch.inf).contiguous(),
        delta.contiguous(),
        mask,
        valid,
        q_offset,
        *ctx.options,
    )
    return *grads, None, None, d_sinks, *(None,) * 5


fused.register_autograd(_backward, setup_context=_keep)
