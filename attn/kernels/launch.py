"""Launch the kernels: grids, gradients, and PyTorch operators.

Operators work with autograd and ``torch.compile``. These take validated
tensors of four axes, from ``attn.kernels.attention``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from attn.kernels.backward import attention_dkdv, attention_dq
from attn.kernels.configs import Config, config_of
from attn.kernels.forward import attention_forward
from attn.kernels.variants import (
    descriptor_reasons,
    descriptors,
    programs_at_a_time,
)

__all__ = [
    "Options",
    "UNBOUNDED",
    "dummy_pointers",
    "forward",
    "launch_forward",
    "shape_constants",
    "tiles",
]

UNBOUNDED = 2**30  # larger than any distance


class Options(NamedTuple):
    """Everything that acts on the scores, in the order of the operators."""

    mask: Tensor | None  # (B, H, L, S), uint8 (1 = may attend) or float
    valid: Tensor | None  # (B, S), uint8
    sinks: Tensor | None  # (H,)
    q_offset: Tensor  # (B,), int32
    scale: float
    softcap: float = 0.0  # 0: none
    left: int = UNBOUNDED  # keys before a query that it attends to
    right: int = UNBOUNDED  # and after it

    @property
    def constants(self) -> dict[str, Any]:
        """Return the compile-time constants."""
        is_bool = self.mask is not None and self.mask.dtype == torch.uint8
        is_banded = self.right < UNBOUNDED
        return {
            "BANDED": 2 if self.left < UNBOUNDED else int(is_banded),
            "MASK_KIND": 0 if self.mask is None else 1 if is_bool else 2,
            "HAS_VALID": self.valid is not None,
            "HAS_SINKS": self.sinks is not None,
            "HAS_CAP": self.softcap > 0,
        }


@torch.library.custom_op("attn::fused_attention", mutates_args=())
def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    valid: Tensor | None,
    sinks: Tensor | None,
    q_offset: Tensor,
    scale: float,
    softcap: float,
    left: int,
    right: int,
    variant: str = "",
) -> tuple[Tensor, Tensor]:
    """Compute the output and the lse.

    Args:
        query: ``(B, H, L, D)``.
        key: ``(B, Hkv, S, D)``.
        value: ``(B, Hkv, S, Dv)``.
        mask, valid, sinks, q_offset, scale, softcap, left, right: the fields
            of ``Options``.
        variant: of the kernel; that of the table when empty.

    Returns:
        ``(B, H, L, Dv)`` in the query's dtype; ``(B, H, L)`` float32.
    """
    options = Options(
        mask, valid, sinks, q_offset, scale, softcap, left, right
    )
    out, lse = _empty_results(query, key, value)
    if not out.numel():
        return out, lse.fill_(-torch.inf)
    launch_forward(query, key, value, out, lse, options, variant=variant)
    return out, lse


@forward.register_fake
def _empty_results(
    query: Tensor, key: Tensor, value: Tensor, *_: Any
) -> tuple[Tensor, Tensor]:
    B, H, L = query.shape[:3]
    out = query.new_empty(B, H, L, value.shape[-1])
    return out, query.new_empty(B, H, L, dtype=torch.float32)


def launch_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    options: Options,
    cu_seqlens: tuple[Tensor, Tensor] | None = None,
    max_seqlen_q: int = 0,
    variant: str = "",
) -> None:
    """Launch the forward kernel, which fills ``out`` and ``lse``.

    Args:
        query, key, value: as in ``forward``. With ``cu_seqlens`` each
            of the ``B`` rows holds all sequences, end to end.
        out, lse: ``(B, H, L, Dv)`` and ``(B, H, L)``.
        options: see there.
        cu_seqlens: the starts of the queries and of the keys of each
            sequence, and the end of the last; int32, ``(B + 1,)``.
        max_seqlen_q: queries of the longest sequence.
        variant: as in ``forward``; without ``cu_seqlens``, and where the
            tensors have descriptors.
    """
    B, H, L, _ = query.shape
    S = key.shape[2]
    inputs: list[Any] = [query, key, value]
    tile = tiles("forward", query, value, max_seqlen_q or L, S)
    grid = (triton.cdiv(max_seqlen_q or L, tile["BLOCK_L"]), H, B)
    constants = shape_constants(query, key, value)
    variant = variant or _config("forward", query, value).variant
    if variant != "pointers":
        if cu_seqlens or descriptor_reasons(*inputs):
            variant = "pointers"
        else:
            inputs = descriptors(query, key, value, constants | tile)
    if variant == "persistent":
        most = programs_at_a_time(query.device, tile["num_warps"])
        grid = (min(most, math.prod(grid)), 1, 1)
    else:  # only that grid needs it; other values compile the kernel again
        B = 0
    if cu_seqlens:  # the kernel loads both
        L = S = 0
    mask, *vectors = dummy_pointers(query, *options[:3])
    attention_forward[grid](
        *inputs, out, lse, mask, *vectors, options.q_offset,
        *(cu_seqlens or (query, query)), *options[4:], B, H, L, S,
        *query.stride(), *key.stride(), *value.stride(), *out.stride()[:3],
        *mask.stride(), *lse.stride()[:2],
        **constants, **options.constants, **tile,
        VARLEN=cu_seqlens is not None, DESCRIPTORS=variant != "pointers",
        PERSISTENT=variant == "persistent",
    )  # fmt: skip


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
        lse: of each row, sink included, ``inf`` in rows without a key;
            float32 ``(B, H, L)``, contiguous.
        delta: ``sum(out * grad)`` of each row, less the gradient of its lse;
            stored as ``lse``.
        query, key, value, mask, valid, q_offset, scale, softcap, left, right:
            as in ``forward``.
    """
    options = Options(mask, valid, None, q_offset, scale, softcap, left, right)
    B, H, L, _ = query.shape
    Hkv, S = key.shape[1:3]
    dq, dk, dv = _empty_gradients(grad, query, key, value)
    if not (query.numel() and value.numel()):
        return dq.zero_(), dk.zero_(), dv.zero_()
    inputs = (query, key, value, grad)
    mask, valid = dummy_pointers(query, mask, valid)
    others = (
        lse, delta, mask, valid, q_offset, scale, softcap, left, right,
        H, L, S, *(n for x in inputs for n in x.stride()),
    )  # fmt: skip
    constants = shape_constants(query, key, value) | options.constants

    tile = tiles("dkdv", query, value, L, S)
    attention_dkdv[(triton.cdiv(S, tile["BLOCK_S"]), Hkv, B)](
        *inputs, dk, dv, *others, *dk.stride()[:3], *dv.stride()[:3],
        *mask.stride(), **constants, **tile,
    )  # fmt: skip
    tile = tiles("dq", query, value, L, S)
    attention_dq[(triton.cdiv(L, tile["BLOCK_L"]), H, B)](
        *inputs, dq, *others, *dq.stride()[:3],
        *mask.stride(), **constants, **tile,
    )  # fmt: skip
    return dq, dk, dv


@_backward.register_fake
def _empty_gradients(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any
) -> Any:
    layout = torch.contiguous_format
    inputs = (query, key, value)
    return tuple(torch.empty_like(x, memory_format=layout) for x in inputs)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    tensors, ctx.numbers = inputs[:7], inputs[7:11]
    ctx.save_for_backward(*tensors, *output)


def _gradients(ctx: Any, d_out: Tensor, d_lse: Tensor) -> Any:
    query, key, value, mask, valid, sinks, q_offset, out, lse = (
        ctx.saved_tensors
    )
    lse_with_sink, d_sinks = lse, None
    delta = (d_out.float() * out.float()).sum(-1)  # (B, H, L)
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
    grads = _backward(
        d_out, query, key, value, lse_with_sink.contiguous(),
        delta.contiguous(), mask, valid, q_offset, *ctx.numbers,
    )  # fmt: skip
    return *grads, None, None, d_sinks, *(None,) * 6


forward.register_autograd(_gradients, setup_context=_save)


def shape_constants(
    query: Tensor, key: Tensor, value: Tensor
) -> dict[str, Any]:
    """Return the compile-time constants of heads, head sizes and dtype."""
    D, Dv = query.shape[-1], value.shape[-1]
    return {
        "GROUP": query.shape[1] // key.shape[1],
        "D": D,
        "DV": Dv,
        "BLOCK_D": max(16, triton.next_power_of_2(D)),
        "BLOCK_DV": max(16, triton.next_power_of_2(Dv)),
        "PRECISION": "ieee" if query.dtype == torch.float32 else "tf32",
    }


def _config(kernel: str, query: Tensor, value: Tensor) -> Config:
    arch = 0
    if query.is_cuda:
        arch = 10 * torch.cuda.get_device_capability(query.device)[0]
    head_dim = max(query.shape[-1], value.shape[-1])
    return config_of(kernel, head_dim, query.element_size(), arch)


def tiles(
    kernel: str, query: Tensor, value: Tensor, q_len: int, kv_len: int
) -> dict[str, int]:
    """Return a kernel's configuration as keyword arguments of a launch.

    Blocks shrink with the sequence, to 16 at least.
    """
    config = _config(kernel, query, value)

    def fit(block: int, length: int) -> int:
        return min(block, max(16, triton.next_power_of_2(length)))

    return {
        "BLOCK_L": fit(config.block_l, q_len),
        "BLOCK_S": fit(config.block_s, kv_len),
        "num_warps": config.num_warps,
        "num_stages": config.num_stages,
    }


def dummy_pointers(query: Tensor, *tensors: Tensor | None) -> list[Tensor]:
    """Return the query, which is never read there, for a missing tensor."""
    return [query if x is None else x for x in tensors]
