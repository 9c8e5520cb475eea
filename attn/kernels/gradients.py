"""The backward pass as an operator of PyTorch, for autograd.

``gradients`` is what autograd calls: it prepares two numbers for each row,
and the operator launches the kernels of ``attn.kernels.backward``.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
import triton
from torch import Tensor

from attn.kernels.backward import attention_dkdv, attention_dq
from attn.kernels.configs import (
    Options,
    config_for,
    dummy_pointers,
    shape_constants,
    tiles,
)
from attn.kernels.delta import row_dots
from attn.kernels.variants import descriptor_reasons, descriptors

__all__ = ["gradients", "save"]

LN2 = math.log(2)
MAX_BLOCK = 256  # rows, of any configuration


@torch.library.custom_op("attn::fused_attention_backward", mutates_args=())
def _backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lse: Tensor,
    delta: Tensor,
    mask: Tensor | None,
    valid: Tensor | None,
    q_offset: Tensor,
    scale: float,
    softcap: float,
    left: int,
    right: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of query, key and value.

    Args:
        grad: of the output, ``(B, H, L, Dv)``.
        lse: of each row, sink included, in base 2, and ``inf`` in rows
            without a key and from ``L`` on; float32 ``(B, H, rows)``,
            contiguous, a multiple of every block.
        delta: ``sum(out * grad)`` of each row, less the gradient of its lse,
            and 0 from ``L`` on; stored as ``lse``.
        query, key, value, mask, valid, q_offset, scale, softcap, left, right:
            as in ``forward``.
    """
    options = Options(mask, valid, None, q_offset, scale, softcap, left, right)
    B, H, L, _ = query.shape
    Hkv, S = key.shape[1:3]
    dq, dk, dv = _empty_gradients(grad, query, key, value)
    if not (query.numel() and value.numel()):
        return dq.zero_(), dk.zero_(), dv.zero_()
    tensors = {"query": query, "key": key, "value": value, "grad": grad}
    inputs: Any = tuple(tensors.values())
    mask, valid = dummy_pointers(query, mask, valid)
    others = (
        lse, delta, mask, valid, q_offset, scale, softcap, left, right,
        H, L, S, lse.shape[-1], *(n for x in inputs for n in x.stride()),
    )  # fmt: skip
    constants = shape_constants(query, key, value) | options.constants

    def launch(
        kernel: Any, name: str, programs: int, heads: int, *results: Tensor
    ) -> None:
        tile, loaded = tiles(name, query, value, L, S), inputs
        variant = config_for(name, query, value).variant
        uses = variant != "pointers" and not descriptor_reasons(**tensors)
        if uses:
            loaded = descriptors(tensors, constants | tile)
        block = "BLOCK_S" if name == "dkdv" else "BLOCK_L"
        kernel[(triton.cdiv(programs, tile[block]), heads, B)](
            *loaded, *results, *others,
            *(n for x in results for n in x.stride()[:3]), *mask.stride(),
            **constants, **tile, DESCRIPTORS=uses,
        )  # fmt: skip

    launch(attention_dkdv, "dkdv", S, Hkv, dk, dv)
    launch(attention_dq, "dq", L, H, dq)
    return dq, dk, dv


@_backward.register_fake
def _empty_gradients(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any
) -> Any:
    layout = torch.contiguous_format
    inputs = (query, key, value)
    return tuple(torch.empty_like(x, memory_format=layout) for x in inputs)


def save(ctx: Any, inputs: Any, output: Any) -> None:
    """Save what the gradients of ``attn.kernels.forward`` need."""
    query, key, value, *fields, _variant = inputs
    x = Options(*fields)
    ctx.save_for_backward(
        query, key, value, x.mask, x.valid, x.sinks, x.q_offset, *output
    )
    ctx.numbers = x.scale, x.softcap, x.left, x.right


def gradients(ctx: Any, d_out: Tensor, d_lse: Tensor) -> Any:
    """Return the gradient of each input of that operator, or None."""
    query, key, value, mask, valid, sinks, q_offset, out, lse = (
        ctx.saved_tensors
    )
    lse_with_sink, d_sinks = lse, None
    delta = row_dots(out, d_out)  # (B, H, L)
    if sinks is not None:
        sink = sinks.float()[:, None]  # (H, 1)
        lse_with_sink = torch.logaddexp(lse, sink)
        d_sink = torch.exp(sink - lse_with_sink) * -delta
        d_sinks = d_sink.sum((0, 2)).to(sinks.dtype)
    dead = lse == -torch.inf
    if d_lse is not None:  # it reaches every weight of the row
        share = torch.exp((lse_with_sink - lse).masked_fill(dead, 0.0))
        delta = delta - d_lse * share
    lse_with_sink = lse_with_sink.masked_fill(dead, torch.inf)
    beyond = (0, -lse.shape[-1] % MAX_BLOCK)  # so that no load needs a mask
    dq, dk, dv = _backward(
        d_out, query, key, value,
        F.pad(lse_with_sink / LN2, beyond, value=torch.inf),
        F.pad(delta, beyond), mask, valid, q_offset, *ctx.numbers,
    )  # fmt: skip
    grads = {"query": dq, "key": dk, "value": dv, "sinks": d_sinks}
    inputs = ("query", "key", "value", *Options._fields, "variant")
    return tuple(map(grads.get, inputs))
