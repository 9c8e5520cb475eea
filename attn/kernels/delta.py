"""The dot product of each row of the output with its gradient.

FlashAttention's backward pass needs ``delta = sum(out * grad)`` of each row.
PyTorch would store three float32 copies of the output on the way to it; this
kernel reads both tensors once.

Source: Dao et al. 2022, appendix B.4.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from attn.kernels.tile import load_tile

__all__ = ["row_dots", "row_dots_kernel"]

BLOCK_L = 32  # rows of a program


@triton.jit
def row_dots_kernel(
    OUT, GRAD_OUT, DELTA, H, L,
    o_b, o_h, o_l, o_d, do_b, do_h, do_l, do_d,
    DV: tl.constexpr, BLOCK_L: tl.constexpr, BLOCK_DV: tl.constexpr,
):  # fmt: skip
    """Compute the dot products of ``BLOCK_L`` rows of one head."""
    b = tl.program_id(2).to(tl.int64)
    h = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)
    OUT += b * o_b + h * o_h
    GRAD_OUT += b * do_b + h * do_h
    out = load_tile(OUT, row, L, o_l, o_d, DV, BLOCK_DV)
    grad = load_tile(GRAD_OUT, row, L, do_l, do_d, DV, BLOCK_DV)
    delta = tl.sum(out.to(tl.float32) * grad.to(tl.float32), 1)
    tl.store(DELTA + (b * H + h) * L + row, delta, row < L)


@torch.library.custom_op("attn::row_dots", mutates_args=())
def row_dots(out: Tensor, grad: Tensor) -> Tensor:
    """Compute ``sum(out * grad)`` of each row, in float32.

    Args:
        out, grad: ``(B, H, L, Dv)``.

    Returns:
        ``(B, H, L)``, float32.
    """
    delta = _empty(out, grad)
    B, H, L, Dv = out.shape
    if out.numel():
        row_dots_kernel[(triton.cdiv(L, BLOCK_L), H, B)](
            out, grad, delta, H, L, *out.stride(), *grad.stride(),
            DV=Dv, BLOCK_L=BLOCK_L, BLOCK_DV=triton.next_power_of_2(Dv),
        )  # fmt: skip
    return delta if Dv else delta.zero_()


@row_dots.register_fake
def _empty(out: Tensor, grad: Tensor) -> Tensor:
    return out.new_empty(out.shape[:3], dtype=torch.float32)
