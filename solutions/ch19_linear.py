"""Solutions of chapter 19. Each signature and docstring is the task."""

import torch
import torch.nn.functional as F
from torch import Tensor


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Compute causal linear attention that keeps only a state.

    A key's weight is ``phi(q) · phi(k)``, with ``phi(x) = elu(x) + 1``,
    divided by the sum of its row; there is no scale. Token i reads keys
    0 to i, and all that ``state`` has read before. The check goes on
    from a state, yours among them, compares gradients, and measures
    live memory: neither (L, L) scores nor a state for each token.
    Change no input in place.

    Args:
        query, key: ``(..., L, D)``.
        value: ``(..., L, Dv)``.
        state: ``(S, z)`` of the tokens before; None: there are none.

    Returns:
        out, ``(..., L, Dv)``; the state after the last token, that is
        S, the sum of all ``phi(k) vᵀ``, ``(..., D, Dv)``, and z, the
        sum of all ``phi(k)``, ``(..., D)``.
    """
    query, key = F.elu(query) + 1, F.elu(key) + 1
    if state is None:
        z = torch.zeros_like(key[..., 0, :])  # (..., D)
        state = z[..., None] * value[..., :1, :], z  # (..., D, Dv)
    S, z = state
    outs = []
    for i in range(query.shape[-2]):
        q, k, v = query[..., i, :], key[..., i, :], value[..., i, :]
        S = S + k[..., :, None] * v[..., None, :]  # (..., D, Dv)
        z = z + k  # (..., D)
        total = (q * z).sum(-1, keepdim=True)  # (..., 1)
        outs.append((q[..., None, :] @ S)[..., 0, :] / total)
    return torch.stack(outs, -2), (S, z)


def chunked(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    chunk_size: int,
    state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute linear attention with decay, a chunk at a time.

    For each token, ``S = exp(g) * S + k vᵀ``, then ``out = q S``: no
    feature map, normaliser or scale. Within a chunk use scores and a
    mask; between chunks, the state. The last chunk may be shorter. The
    check measures what is alive, for backward too: neither (L, L)
    scores nor a state for each token. Sums of g reach -200 within a
    chunk: results and gradients stay finite.

    Args:
        query, key: ``(..., L, D)``.
        value: ``(..., L, Dv)``.
        g: logs of the decays, at most 0, ``(..., L)``.
        chunk_size: tokens of a chunk.
        state: ``(..., D, Dv)``; None: zeros.

    Returns:
        out, ``(..., L, Dv)``; the state after the last token.
    """
    S, outs = state, []
    if S is None:
        S = key.new_zeros(*key[..., 0, :].shape, value.shape[-1])
    for i in range(0, query.shape[-2], chunk_size):
        rows = slice(i, i + chunk_size)
        q, k, v = (x[..., rows, :] for x in (query, key, value))
        c = g[..., rows].cumsum(-1)[..., None]  # (..., C, 1)
        C = q.shape[-2]
        later = torch.ones(C, C, dtype=torch.bool).triu(1)
        decay = (c - c.mT).masked_fill(later, -torch.inf).exp()
        outs.append(c.exp() * q @ S + (q @ k.mT * decay) @ v)
        end = c[..., -1:, :]
        S = end.exp() * S + ((end - c).exp() * k).mT @ v
    return torch.cat(outs, -2), S


def gated_delta_step(
    state: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
) -> tuple[Tensor, Tensor]:
    """Read and write the state of the gated delta rule for one token.

    Divide query and key by their lengths, and the query by ``sqrt(D)``,
    too; a key of zeros stays zero. Then: the state fades by ``exp(g)``;
    at the key, what is read moves towards the value by the part
    ``beta``; at last the query reads. With ``beta`` 1 the key then
    gives exactly the value; above 1 it overshoots, and up to 2 that is
    allowed. The check repeats keys and compares gradients. Change no
    input in place.

    Args:
        state: ``(..., D, Dv)``.
        query, key: ``(..., D)``.
        value: ``(..., Dv)``.
        g: log of the decay, at most 0, ``(...)``.
        beta: ``(...)``, 0 to 2.

    Returns:
        out, ``(..., Dv)``; the new state.
    """
    q = F.normalize(query, dim=-1) / query.shape[-1] ** 0.5
    k = F.normalize(key, dim=-1)[..., None]  # (..., D, 1)
    state = g.exp()[..., None, None] * state
    stored = (k.mT @ state)[..., 0, :]  # (..., Dv)
    change = beta[..., None] * (value - stored)
    state = state + k * change[..., None, :]
    return (q[..., None, :] @ state)[..., 0, :], state


def gated_delta_chunked(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    chunk_size: int,
    state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute the gated delta rule a chunk at a time.

    The result is that of ``gated_delta_step`` for one token after the
    other. Within a chunk, what each token writes depends on what the
    earlier ones wrote: solve for all of it at once, as the text does.
    The last chunk may be shorter. The check measures what is alive, for
    backward too, so a state for each token is too much; sums of g reach
    -200 within a chunk.

    Args:
        query, key: ``(..., L, D)``, of any length.
        value: ``(..., L, Dv)``.
        g: logs of the decays, at most 0, ``(..., L)``.
        beta: ``(..., L)``, 0 to 2.
        chunk_size: tokens of a chunk.
        state: ``(..., D, Dv)``; None: zeros.

    Returns:
        out, ``(..., L, Dv)``; the state after the last token.
    """
    query = F.normalize(query, dim=-1) / query.shape[-1] ** 0.5
    key = F.normalize(key, dim=-1)
    solve = torch.linalg.solve_triangular
    S, outs = state, []
    if S is None:
        S = key.new_zeros(*key[..., 0, :].shape, value.shape[-1])
    for i in range(0, query.shape[-2], chunk_size):
        rows = slice(i, i + chunk_size)
        q, k, v = (x[..., rows, :] for x in (query, key, value))
        b = beta[..., rows, None]  # (..., C, 1)
        c = g[..., rows].cumsum(-1)[..., None]  # (..., C, 1)
        C = q.shape[-2]
        later = torch.ones(C, C, dtype=torch.bool).triu(1)
        decay = (c - c.mT).masked_fill(later, -torch.inf).exp()
        # Row i: u_i + b_i * sum over j < i of (k_i · k_j) decay_ij u_j.
        A = (b * (k @ k.mT) * decay).tril(-1)  # (..., C, C)
        right = b * (v - c.exp() * k @ S)  # (..., C, Dv)
        u = solve(A, right, upper=False, unitriangular=True)
        outs.append(c.exp() * q @ S + (q @ k.mT * decay) @ u)
        end = c[..., -1:, :]
        S = end.exp() * S + ((end - c).exp() * k).mT @ u
    return torch.cat(outs, -2), S


def short_convolution(
    x: Tensor, weight: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Mix each feature with its own last W values, then apply SiLU.

    Token i becomes ``silu(sum over j of weight[:, j] * x[i - W + 1 +
    j])``: the last column belongs to the token itself, and features do
    not mix. Before the first token there are zeros, or what ``state``
    has kept. The check cuts a text into pieces, shorter than W among
    them, and goes on from your state; it compares gradients.

    Args:
        x: ``(B, L, E)``.
        weight: ``(E, W)``, W at least 2.
        state: the last ``W - 1`` inputs before, ``(B, W - 1, E)``;
            None: zeros.

    Returns:
        y, ``(B, L, E)``; the state for what follows.
    """
    B, L, E = x.shape
    W = weight.shape[-1]
    if state is None:
        state = x.new_zeros(B, W - 1, E)
    seen = torch.cat([state, x], 1)  # (B, W - 1 + L, E)
    y = sum(weight[:, j] * seen[:, j : j + L] for j in range(W))
    return F.silu(y), seen[:, L:]
