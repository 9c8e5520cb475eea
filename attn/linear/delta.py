"""The delta rule: write what the state lacks, not what it has."""

from __future__ import annotations

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.functional import validation
from attn.linear.inputs import prepare, state_like

EPS = 1e-6  # as flash-linear-attention and transformers


def gated_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor | None,
    beta: Tensor,
    *,
    scale: float | None = None,
    qk_l2norm: bool = True,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    chunk_size: int = 64,
    cu_seqlens: Tensor | None = None,
    mode: str = "chunk",
) -> tuple[Tensor, Tensor | None]:
    """Let each token correct what its key reads, towards its value.

    A token decays the state, reads it with its key, and writes ``beta`` of
    what is missing to its value; its query reads the result::

        S = exp(g) * S
        S = S + outer(k, beta * (v - k @ S))
        out = scale * (q @ S)

    With keys of length 1, ``beta = 1`` replaces what the key had, and
    ``beta = 2`` reflects it: the eigenvalue ``1 - beta`` is negative.

    Args:
        query, key: ``(..., Hk, L, D)``.
        value: ``(..., H, L, Dv)``; ``H`` is a multiple of ``Hk``, and
            consecutive value heads share a key head.
        g: **log** of the decay, at most 0, as in ``linear_attention``; None
            for the delta rule without a gate.
        beta: writing strength, ``(..., H, L)``, 0 to 1, or to 2 with negative
            eigenvalues.
        scale: ``D ** -0.5`` when None.
        qk_l2norm: give each query and key length 1. Without, keys longer
            than ``(2 / beta) ** 0.5`` make the state grow without bound.
        initial_state, output_final_state, chunk_size, cu_seqlens, mode: as in
            ``linear_attention``.

    Returns:
        The output ``(..., H, L, Dv)`` in the dtype of the query; and the
        state ``(..., H, D, Dv)``, float32 (float64 for float64), or None.

    Raises:
        ValueError, TypeError: an argument is wrong.

    Example:
        >>> from attn.linear import gated_delta_rule
        >>> key = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])  # twice the same
        >>> value = torch.tensor([[[3.0], [5.0]]])  # (H, L, Dv)
        >>> out, state = gated_delta_rule(
        ...     key, key, value, None, torch.ones(1, 2), scale=1.0,
        ...     output_final_state=True,
        ... )
        >>> out.flatten()  # the second value replaces the first
        tensor([3.0000, 5.0000])

    Source: Schlag et al. 2021 (delta rule); Yang et al. 2024, "Parallelizing
    Linear Transformers with the Delta Rule", section 3; Yang et al. 2024,
    "Gated Delta Networks"; Grazzi et al. 2024 (negative eigenvalues).
    """
    arguments.tensor("beta", beta, floating=True)
    inputs = prepare(
        query, key, value, g, beta, initial_state, cu_seqlens, mode,
        chunk_size,
    )  # fmt: skip
    q, k = inputs.q, inputs.k
    if qk_l2norm:
        _check_beta(beta)
        q, k = (
            x * torch.rsqrt(x.square().sum(-1, keepdim=True) + EPS)
            for x in (q, k)
        )
    q = q * validation.scale(scale, q.shape[-1])
    out, state = inputs._replace(q=q, k=k).run(mode, chunk_size)
    out = out.reshape(value.shape).to(query.dtype)
    return out, state_like(state, value, cu_seqlens, output_final_state)


def _check_beta(beta: Tensor) -> None:
    """Require strengths with which the state of unit keys stays bounded."""
    if not (tracing.has_values(beta) and beta.numel()):
        return
    low, high = map(float, beta.detach().aminmax())
    if low < 0 or high > 2:
        raise ValueError(
            "beta must be 0 to 2 with keys of length 1; got "
            f"{low:.2g} to {high:.2g}: pass logits.sigmoid()"
        )
