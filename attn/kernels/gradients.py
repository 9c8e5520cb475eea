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

from attn.kernels.backward import (
    attention_dkdv,
    attention_dq,
    row_dots_kernel,
)
from attn.kernels.configs import (
    Options,
    config_for,
    dummy_pointers,
    empty_rows,
    shape_constants,
    tiles,
)
from attn.kernels.variants import descriptor_reasons, descriptors

__all__ = ["gradients", "save"]

LN2 = math.log(2)
MAX_BLOCK = 256  # rows, of any configuration
DOTS_BLOCK = 32  # rows of a program of ``row_dots_kernel``


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
    cu_q: Tensor | None,
    cu_k: Tensor | None,
    longest_q: int,
    longest_k: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of query, key and value of ``forward``.

    Args:
        grad: of the output, ``(B, H, L, Dv)``.
        lse: of each row, sink included, in base 2, and ``inf`` in rows
            without a key and from ``L`` on; float32 ``(B, H, rows)``,
            contiguous, a multiple of every block.
        delta: ``sum(out * grad)`` of each row, less the gradient of its lse,
            and 0 from ``L`` on; stored as ``lse``.
    """
    options = Options(
        mask, valid, None, q_offset, scale, softcap, left, right,
        cu_q, cu_k, longest_q, longest_k,
    )  # fmt: skip
    results = _empty_gradients(
        grad, query, key, value, cu_q, cu_k, longest_q, longest_k
    )
    if not (query.numel() and value.numel()):
        return tuple(x.zero_() for x in results)
    grad, query, key, value, lse, delta, *all_rows = options.by_text(
        grad, query, key, value, lse, delta, *results
    )
    packed = cu_q is not None
    B, H, Hkv = *query.shape[:2], key.shape[1]
    L, S = options.lengths(query, key)
    tensors = {"query": query, "key": key, "value": value, "grad": grad}
    inputs: Any = tuple(tensors.values())
    mask, valid, *ends = dummy_pointers(query, mask, valid, cu_q, cu_k)
    others = (
        lse, delta, mask, valid, q_offset, *ends, scale, softcap, left, right,
        *((0, 0) if packed else (L, S)),  # the kernel loads both
        *lse.stride()[:2], *(n for x in inputs for n in x.stride()),
    )  # fmt: skip
    constants = shape_constants(query, key, value) | options.constants

    def launch(
        kernel: Any, name: str, programs: int, heads: int, *results: Tensor
    ) -> None:
        tile, loaded = tiles(name, query, value, L, S), inputs
        variant = config_for(name, query, value).variant
        uses = variant != "pointers" and not packed
        uses = uses and not descriptor_reasons(**tensors)
        if uses:
            loaded = descriptors(tensors, constants | tile)
        block = "BLOCK_S" if name == "dkdv" else "BLOCK_L"
        kernel[(triton.cdiv(programs, tile[block]), heads, B)](
            *loaded, *results, *others,
            *(n for x in results for n in x.stride()[:3]), *mask.stride(),
            **constants, **tile, VARLEN=packed, DESCRIPTORS=uses,
        )  # fmt: skip

    dq, dk, dv = all_rows
    launch(attention_dkdv, "dkdv", S, Hkv, dk, dv)
    launch(attention_dq, "dq", L, H, dq)
    return results


@_backward.register_fake
def _empty_gradients(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *options: Any
) -> Any:
    packed = options[-4] is not None  # cu_q
    inputs = (query, key, value)
    return tuple(empty_rows(x, x.shape, packed) for x in inputs)


@torch.library.custom_op("attn::row_dots", mutates_args=())
def _row_dots(out: Tensor, grad: Tensor) -> Tensor:
    """Compute ``sum(out * grad)`` of each row, ``(B, H, L)``, in float32."""
    delta = _empty_dots(out, grad)
    B, H, L, Dv = out.shape
    if out.numel():
        row_dots_kernel[(triton.cdiv(L, DOTS_BLOCK), H, B)](
            out, grad, delta, H, L, *out.stride(), *grad.stride(),
            DV=Dv, BLOCK_L=DOTS_BLOCK, BLOCK_DV=triton.next_power_of_2(Dv),
        )  # fmt: skip
    return delta if Dv else delta.zero_()


@_row_dots.register_fake
def _empty_dots(out: Tensor, grad: Tensor) -> Tensor:
    return out.new_empty(out.shape[:3], dtype=torch.float32)


def save(ctx: Any, inputs: Any, output: Any) -> None:
    """Save what the gradients of ``attn.kernels.forward`` need."""
    query, key, value, *fields, _variant = inputs
    x = Options(*fields)
    ctx.save_for_backward(
        query, key, value, x.mask, x.valid, x.sinks, x.q_offset,
        x.cu_q, x.cu_k, *output,
    )  # fmt: skip
    ctx.numbers = x.scale, x.softcap, x.left, x.right
    ctx.longest = x.longest_q, x.longest_k


def gradients(ctx: Any, d_out: Tensor, d_lse: Tensor) -> Any:
    """Return the gradient of each input of that operator, or None."""
    query, key, value, mask, valid, sinks, q_offset, *ends, out, lse = (
        ctx.saved_tensors
    )
    lse_with_sink, d_sinks = lse, None
    delta = _row_dots(out, d_out)  # (B, H, L)
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
        *ends, *ctx.longest,
    )  # fmt: skip
    grads = {"query": dq, "key": dk, "value": dv, "sinks": d_sinks}
    inputs = ("query", "key", "value", *Options._fields, "variant")
    return tuple(map(grads.get, inputs))
