"""From tensors to a grid of programs."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from attn.kernels.backward import attention_dkdv, attention_dq
from attn.kernels.configs import config_of
from attn.kernels.forward import attention_forward
from attn.kernels.tile import INTERPRETED

__all__ = [
    "Extras",
    "FAR",
    "Options",
    "arch_of",
    "can_run",
    "run_backward",
    "run_forward",
]

FAR = 2**30  # further than any key


class Options(NamedTuple):
    """What a call asks for besides its tensors."""

    scale: float
    softcap: float = 0.0  # 0: none
    left: int = FAR  # keys before a query that it sees
    right: int = FAR  # and behind

    @property
    def banded(self) -> int:
        """Which bounds count: 0 none, 1 right, 2 both."""
        return 2 if self.left < FAR else int(self.right < FAR)


class Extras(NamedTuple):
    """Tensors that a call may lack."""

    mask: Tensor | None = None  # (B, H, L, S), bool or float
    valid: Tensor | None = None  # (B, S), uint8
    sinks: Tensor | None = None  # (H,)
    q_offset: Tensor | None = None  # (B,)


def run_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    options: Options,
    extras: Extras,
) -> tuple[Tensor, Tensor]:
    """Launch the forward kernel.

    Args:
        query: ``(B, H, L, D)``.
        key: ``(B, Hkv, S, D)``.
        value: ``(B, Hkv, S, Dv)``.
        options, extras: see there.

    Returns:
        ``(B, H, L, Dv)`` in the query's dtype; ``(B, H, L)`` float32.
    """
    B, H, L, D = query.shape
    S, Dv = value.shape[-2:]
    out = query.new_empty(B, H, L, Dv)
    lse = query.new_empty(B, H, L, dtype=torch.float32)
    if not out.numel():
        return out, lse.fill_(-torch.inf)
    size, arch = query.element_size(), arch_of(query)
    config = config_of("forward", max(D, Dv), size, arch)
    block_l, block_s = blocks(config, L, S)
    grid = (triton.cdiv(L, block_l), H, B)
    attention_forward[grid](
        query, key, value, out, lse,
        *or_nothing(query, extras.mask, extras.valid, extras.sinks),
        offsets(extras.q_offset, query), query, query,
        options.scale, options.softcap or 1.0, options.left, options.right,
        H, L, S,
        *query.stride(), *key.stride(), *value.stride(), *out.stride()[:3],
        *(extras.mask.stride() if extras.mask is not None else (0,) * 4),
        *lse.stride()[:2],
        **constants(query, key, value, options, extras),
        BLOCK_L=block_l, BLOCK_S=block_s, VARLEN=False,
        num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
    return out, lse


def run_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    whole: Tensor,
    delta: Tensor,
    options: Options,
    extras: Extras,
) -> tuple[Tensor, Tensor, Tensor]:
    """Launch the two backward kernels.

    Args:
        grad: of the output, ``(B, H, L, Dv)``.
        query, key, value: as in ``run_forward``.
        whole: log of each row's denominator, sink included, ``inf`` for a
            query without a key; float32 ``(B, H, L)``, contiguous.
        delta: what each row loses, likewise.
        options, extras: as in ``run_forward``.

    Returns:
        Gradients of query, key and value.
    """
    B, H, L, D = query.shape
    Hkv, S, Dv = key.shape[1], *value.shape[-2:]
    dq, dk, dv = (
        torch.empty_like(x, memory_format=torch.contiguous_format)
        for x in (query, key, value)
    )
    if not (query.numel() and value.numel()):
        return dq.zero_(), dk.zero_(), dv.zero_()
    mask = extras.mask
    tensors = (*or_nothing(query, mask, extras.valid),)
    start = offsets(extras.q_offset, query)
    sizes = (
        options.scale, options.softcap or 1.0, options.left, options.right,
        H, L, S,
    )  # fmt: skip
    strides = [n for x in (query, key, value, grad) for n in x.stride()]
    of_mask = mask.stride() if mask is not None else (0,) * 4
    known = constants(query, key, value, options, extras)
    size, arch = query.element_size(), arch_of(query)

    config = config_of("dkdv", max(D, Dv), size, arch)
    block_l, block_s = blocks(config, L, S)
    attention_dkdv[(triton.cdiv(S, block_s), Hkv, B)](
        query, key, value, grad, dk, dv, whole, delta, *tensors, start,
        *sizes, *strides, *dk.stride()[:3], *dv.stride()[:3], *of_mask,
        **known, BLOCK_L=block_l, BLOCK_S=block_s,
        num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
    config = config_of("dq", max(D, Dv), size, arch)
    block_l, block_s = blocks(config, L, S)
    attention_dq[(triton.cdiv(L, block_l), H, B)](
        query, key, value, grad, dq, whole, delta, *tensors, start,
        *sizes, *strides, *dq.stride()[:3], *of_mask,
        **known, BLOCK_L=block_l, BLOCK_S=block_s,
        num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
    return dq, dk, dv


def constants(
    query: Tensor, key: Tensor, value: Tensor, options: Options, extras: Extras
) -> dict[str, Any]:
    """What the compiler knows."""
    D, Dv = query.shape[-1], value.shape[-1]
    kind = 0 if extras.mask is None else 2
    if extras.mask is not None and extras.mask.dtype == torch.uint8:
        kind = 1
    return {
        "GROUP": query.shape[1] // key.shape[1],
        "D": D,
        "DV": Dv,
        "BLOCK_D": max(16, triton.next_power_of_2(D)),
        "BLOCK_DV": max(16, triton.next_power_of_2(Dv)),
        "BANDED": options.banded,
        "MASK_KIND": kind,
        "HAS_VALID": extras.valid is not None,
        "HAS_SINKS": extras.sinks is not None,
        "HAS_CAP": options.softcap > 0,
        "PRECISION": "ieee" if query.dtype == torch.float32 else "tf32",
    }


def blocks(config: Any, q_len: int, kv_len: int) -> tuple[int, int]:
    """A tile, smaller where there is less to do: never below 16."""

    def fit(block: int, length: int) -> int:
        return min(block, max(16, triton.next_power_of_2(length)))

    return fit(config.block_l, q_len), fit(config.block_s, kv_len)


def or_nothing(like: Tensor, *tensors: Tensor | None) -> list[Tensor]:
    """A pointer that is never read, where a tensor is missing."""
    return [like if x is None else x for x in tensors]


def offsets(q_offset: Tensor | None, query: Tensor) -> Tensor:
    """One position for each row, where 0 is meant."""
    if q_offset is not None:
        return q_offset
    return torch.zeros(query.shape[0], dtype=torch.int32, device=query.device)


def arch_of(x: Tensor) -> int:
    """Which GPU a tensor is on: 90 for sm_90, 0 for none."""
    if not x.is_cuda:
        return 0
    major, _ = torch.cuda.get_device_capability(x.device)
    return 10 * major


def can_run(device: torch.device) -> str | None:
    """Why kernels cannot run there; None when they can."""
    if INTERPRETED or device.type == "cuda":
        return None
    return (
        f"query is on {device}: the kernels need a GPU, or "
        "TRITON_INTERPRET=1 before triton is imported"
    )
