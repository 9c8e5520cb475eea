"""The contract for the kernel of linear attention: which calls it supports.

Triton is imported by the first call.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attn import tracing
from attn.functional import validation
from attn.kernels.configs import config_for, shape_constants

__all__ = ["linear_attention_chunks"]


def linear_attention_chunks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    *,
    scale: float | None = None,
    initial_state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute ``attn.linear_attention`` with a decay by token, in one kernel.

    Sums and the state are float32. Decays are differences of sums over a
    chunk: gates that forget within a few tokens cost digits in float32, about
    ``1e-4`` of the output. There are no gradients.

    Args:
        query, key: ``(B, Hk, L, D)``, ``D`` at most 256.
        value: ``(B, H, L, Dv)``; ``H`` is a multiple of ``Hk``.
        g: **log** of the decay, at most 0, ``(B, H, L)``.
        scale: ``D ** -0.5`` when None.
        initial_state: ``(B, H, D, Dv)``; zeros when None.

    Returns:
        The output ``(B, H, L, Dv)``, and the state after the last token,
        ``(B, H, D, Dv)``, float32.

    Raises:
        ValueError, TypeError: an argument is wrong, or the kernel cannot run
            here.

    Example:
        >>> from attn.kernels import linear_attention_chunks
        >>> q, k, v = torch.randn(3, 1, 2, 40, 16)
        >>> g = -torch.rand(1, 2, 40)  # log decays
        >>> out, state = linear_attention_chunks(q, k, v, g)
        >>> exact, _ = attn.linear_attention(q, k, v, g)
        >>> torch.allclose(out, exact, atol=1e-4)
        True

    Source: Yang et al. 2023, "Gated Linear Attention"; Dao and Gu 2024,
    "Transformers are SSMs" (Mamba 2), section 6.
    """
    _check(query, key, value, g, initial_state)
    scale = validation.scale(scale, query.shape[-1])
    B, H, L, Dv = value.shape
    out = torch.empty_like(value, memory_format=torch.contiguous_format)
    last = value.new_empty(B, H, query.shape[-1], Dv, dtype=torch.float32)
    if not last.numel():
        return out, last
    import triton

    from attn.kernels.linear import linear_chunks

    start = last  # a dummy
    if initial_state is not None:
        start = initial_state.to(torch.float32).contiguous()
    g = g.to(torch.float32)
    config = config_for("linear", query, value)
    constants = shape_constants(query, key, value)
    constants["GROUP"] = H // query.shape[1]
    constants["BLOCK_DV"] = min(config.block_s, constants["BLOCK_DV"])
    linear_chunks[(triton.cdiv(Dv, constants["BLOCK_DV"]), H, B)](
        query, key, value, g, out, start, last, scale, L,
        *query.stride(), *key.stride(), *value.stride(), *g.stride(),
        *out.stride()[:3],
        **constants, BLOCK_L=config.block_l,
        HAS_START=initial_state is not None,
        num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
    return out, last


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    initial_state: Tensor | None,
) -> None:
    """Require tensors that the kernel reads as they are."""
    validation.tensors(query, key, value)
    tracing.require_values("which the kernel reads", query=query)
    B, H, L, Dv = value.shape if value.dim() == 4 else (0, 0, 0, 0)
    Hk, D = query.shape[1], query.shape[-1]
    if value.dim() != 4 or query.shape != key.shape or query.dim() != 4:
        raise ValueError(
            "query and key must have shape (B, Hk, L, D), and value (B, H, L, "
            f"Dv); got {tuple(query.shape)}, {tuple(key.shape)} and "
            f"{tuple(value.shape)}"
        )
    if query.shape[0] != B or query.shape[2] != L or not Hk or H % Hk:
        raise ValueError(
            "value must have the batch and tokens of query, and its heads or "
            f"a multiple; got {tuple(value.shape)} and {tuple(query.shape)}"
        )
    if query.dtype == torch.float64 or not 0 < D <= 256 or not 0 < Dv <= 256:
        raise ValueError(
            "query must not be float64, and D and Dv must be 1 to 256; got "
            f"{query.dtype}, {D} and {Dv}: attn.linear_attention has no limit"
        )
    if tuple(g.shape) != (B, H, L):
        raise ValueError(
            f"g must have shape (B, H, L) = {(B, H, L)}; got {tuple(g.shape)}"
        )
    if initial_state is not None and initial_state.shape != (B, H, D, Dv):
        raise ValueError(
            f"initial_state must have shape {(B, H, D, Dv)}; got "
            f"{tuple(initial_state.shape)}"
        )
    validation.no_grad(
        "attn.linear_attention",
        query=query, key=key, value=value, g=g, initial_state=initial_state,
    )  # fmt: skip
    from attn.kernels.tile import INTERPRETED

    if not INTERPRETED and query.device.type != "cuda":
        raise ValueError(
            f"query must be on a GPU; got {query.device}: or set "
            "TRITON_INTERPRET=1 before triton is imported"
        )
