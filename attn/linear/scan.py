"""One rule for the state, computed token by token or chunk by chunk.

The rule of a token with key ``k``, value ``v``, log decay ``g``, and, in the
delta rule, writing strength ``beta``::

    S = exp(g) * S                      # forget
    v = beta * (v - k @ S)              # delta rule: what S lacks
    S = S + outer(k, v)                 # write
    out = q @ S                         # read

Tensors are ``(B, H, L, D)``; ``g`` is ``(B, H, L, 1)``, or ``(B, H, L, D)``
with a decay for each channel of the key. ``beta`` is ``(B, H, L, 1)``; None
adds each value as it is. The state is ``(B, H, D, Dv)``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attn import tracing


def recurrent(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor | None,
    state: Tensor,
) -> tuple[Tensor, Tensor]:
    """Apply the rule to one token after the other.

    Returned are the outputs, and the state after the last token.
    """
    outs = [v[:, :, :0]]
    for t in range(v.shape[2]):
        now = slice(t, t + 1)
        new = v[:, :, now]  # (B, H, 1, Dv)
        state = state * g[:, :, now].exp().mT
        if beta is not None:
            new = beta[:, :, now] * (new - k[:, :, now] @ state)
        state = state + k[:, :, now].mT @ new  # (B, H, D, Dv)
        outs.append(q[:, :, now] @ state)
    return torch.cat(outs, 2), state


def chunked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor | None,
    state: Tensor,
    chunk_size: int,
) -> tuple[Tensor, Tensor]:
    """Apply the rule to a chunk of tokens at a time."""
    outs = [v[:, :, :0]]
    for start in range(0, v.shape[2], chunk_size):
        part = slice(start, start + chunk_size)
        now = *tokens(part, q, k, v, g, beta), state
        out, state = parallel(*now)
        outs.append(out)
    return torch.cat(outs, 2), state


def tokens(part: slice, *tensors: Tensor | None) -> Any:
    """Return some tokens of each tensor."""
    return (None if x is None else x[:, :, part] for x in tensors)


def parallel(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor | None,
    state: Tensor,
) -> tuple[Tensor, Tensor]:
    """Apply the rule to all tokens at once, by matrix products."""
    if not tracing.in_graph() and not v.shape[2]:
        return v, state
    decay = pair_decays(g)  # (B, H, C, C, 1 or D)
    since = g.cumsum(2).exp()  # of the state before the chunk
    if beta is not None:
        # Each value less what its key reads: that of the state, and of the
        # tokens before it, which are corrected too: a triangular system.
        v = v - (k * since) @ state
        overlap = beta * _products(k, k, decay)  # (B, H, C, C)
        v = torch.linalg.solve_triangular(
            overlap, beta * v, upper=False, unitriangular=True
        )
    out = (q * since) @ state + _products(q, k, decay) @ v
    until = decay[:, :, -1]  # from each token to the last
    state = state * since[:, :, -1:].mT + (k * until).mT @ v
    return out, state


def pair_decays(g: Tensor) -> Tensor:
    """Return what is left at token ``i`` of what token ``j`` wrote.

    That is ``exp(g[j + 1] + … + g[i])``, and 0 for ``j > i``, of shape
    ``(..., C, C, X)`` for a ``g`` of ``(..., C, X)``. Differences of
    a cumulative sum would lose digits, and give NaN for a decay to 0, where
    ``g`` is minus infinity. Masked sums are set before the exponential: a
    gradient through ``inf * 0`` is NaN.
    """
    C = g.shape[-2]
    order = torch.ones(C, C, dtype=torch.bool, device=g.device)
    after = order.tril(-1)[..., None]  # t > j
    steps = torch.where(after, g[..., :, None, :], 0.0)  # (..., t, j, X)
    sums = steps.cumsum(-3)  # (..., i, j, X)
    return sums.masked_fill(order.triu(1)[..., None], -torch.inf).exp()


def _products(q: Tensor, k: Tensor, decay: Tensor) -> Tensor:
    """Return ``q[i] · k[j]``, decayed, ``(B, H, C, C)``."""
    if decay.shape[-1] == 1:
        return (q @ k.mT) * decay[..., 0]
    return torch.einsum("...id,...jd,...ijd->...ij", q, k, decay)
