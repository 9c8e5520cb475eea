"""Solutions of chapter 11. Each signature and docstring is the task."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor


def online_softmax(
    scores: Iterable[Tensor], values: Iterable[Tensor]
) -> tuple[Tensor, Tensor]:
    """Compute attention over keys that come in blocks, each read once.

    Keep three things for each row: the maximum so far, the sum of
    ``exp(score - maximum)`` so far, and the weighted sum of values so
    far. When the maximum grows, the last two shrink by
    ``exp(old - new)``. The check hands the blocks over once, in order,
    and measures the memory that is alive: with more blocks it must not
    grow. Scores go far beyond what exp can take, up or down; a fully
    masked row (-inf) gives output 0 and lse -inf.

    Args:
        scores: float32 blocks ``(..., L, S_i)``, at least one; not to
            be changed in place.
        values: as many blocks ``(..., S_i, Dv)``.

    Returns:
        ``softmax(all scores) @ all values``, ``(..., L, Dv)``; and lse,
        the log of the sum of all exp(score), ``(..., L)``.
    """
    top, total, out = torch.tensor(-math.inf), 0.0, 0.0
    for s, v in zip(scores, values, strict=True):
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        safe = new.masked_fill(new == -math.inf, 0)
        weights = (s - safe).exp()  # (..., L, S_i)
        fade = (top - safe).exp()
        total = total * fade + weights.sum(-1, keepdim=True)
        out = out * fade + weights @ v  # (..., L, Dv)
        top = new
    lse = top + total.log()  # -inf for a row that sees nothing
    return out / total.masked_fill(total == 0, 1), lse[..., 0]


def merge_states(
    first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Merge the attention over two sets of keys into that over both.

    A state is ``(out, lse)``. Each part counts by its share of the
    whole sum, ``exp(its lse - the merged lse)``. The check merges
    states far apart, in any order, and rows that are empty in one part
    or in both: ``(0, -inf)`` changes nothing, and two of them are one
    of them. It compares gradients, too. Long contexts are divided like
    this among a GPU's processors, or among GPUs. Change no input in
    place.

    Args:
        first, second: ``out``, ``(..., L, Dv)``, and ``lse``,
            ``(..., L)``, of the same queries over different keys.

    Returns:
        The state over both.
    """
    lse = torch.logaddexp(first[1], second[1])  # (..., L)
    safe = lse.masked_fill(lse == -math.inf, 0)
    a, b = ((x[1] - safe).exp()[..., None] for x in (first, second))
    return a * first[0] + b * second[0], lse


def tiled_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block_q: int,
    block_k: int,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor]:
    """Compute FlashAttention forward, a tile of scores at a time.

    For each block of queries go through the blocks of keys. Scores are
    scaled by ``1 / sqrt(D)``; with ``is_causal`` query i attends to
    keys 0 to i. The check measures the memory that is alive: a copy of
    each input, twice the result and 16 tiles are allowed. A block of
    whole rows is too much: its memory doubles with the length, too, but
    it grows with the keys. Sizes are no multiples of a block, and L !=
    S. Your functions above may be used, but not
    ``F.scaled_dot_product_attention``.

    Args:
        query: ``(..., L, D)``, float32.
        key: ``(..., S, D)``, S at least 1.
        value: ``(..., S, Dv)``.
        block_q, block_k: queries and keys of a tile.
        is_causal: as in PyTorch, top left.

    Returns:
        out, ``(..., L, Dv)``; lse, natural log, ``(..., L)``.
    """
    L, S = query.shape[-2], key.shape[-2]
    outs, logs = [], []
    for i in range(0, L, block_q):
        q = query[..., i : i + block_q, :] / math.sqrt(query.shape[-1])
        row = torch.arange(i, min(i + block_q, L))[:, None]
        top, total, out = torch.tensor(-math.inf), 0.0, 0.0
        end = min(i + block_q, S) if is_causal else S
        for j in range(0, end, block_k):
            s = q @ key[..., j : j + block_k, :].mT  # (..., l, s)
            if is_causal:
                column = torch.arange(j, min(j + block_k, S))
                s = s.masked_fill(column > row, -math.inf)
            # Key 0 is in the first tile, for every row: new is finite.
            new = torch.maximum(top, s.amax(-1, keepdim=True))
            weights, fade = (s - new).exp(), (top - new).exp()
            total = total * fade + weights.sum(-1, keepdim=True)
            out = out * fade + weights @ value[..., j : j + block_k, :]
            top = new
        outs.append(out / total)
        logs.append((top + total.log())[..., 0])
    return torch.cat(outs, -2), torch.cat(logs, -1)


def tiled_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    d_out: Tensor,
    block_q: int,
    block_k: int,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute FlashAttention backward by recomputing each tile.

    No weights were kept: compute them again, a tile at a time, from
    the scores and ``lse``, and apply what the text derives. Of each
    gradient, know which tiles contribute. The check uses the sizes of
    ``tiled_forward`` and its limit on memory; the result is all three
    gradients. By hand: no autograd, no
    ``F.scaled_dot_product_attention``, and no input changed in place.

    Args:
        query, key, value: as in ``tiled_forward``, float32.
        out, lse: what it returned.
        d_out: the gradient of out, ``(..., L, Dv)``.
        block_q, block_k, is_causal: as in ``tiled_forward``.

    Returns:
        The gradients of query, key and value.
    """
    scale = 1 / math.sqrt(query.shape[-1])
    delta = (out * d_out).sum(-1, keepdim=True)  # (..., L, 1)
    dq, dk, dv = (torch.zeros_like(x) for x in (query, key, value))
    L, S = query.shape[-2], key.shape[-2]
    for i in range(0, L, block_q):
        rows = slice(i, min(i + block_q, L))
        q, g = query[..., rows, :], d_out[..., rows, :]
        for j in range(0, S, block_k):
            cols = slice(j, min(j + block_k, S))
            k, v = key[..., cols, :], value[..., cols, :]
            s = q @ k.mT * scale  # (..., l, s)
            if is_causal:
                row = torch.arange(rows.start, rows.stop)[:, None]
                column = torch.arange(cols.start, cols.stop)
                s = s.masked_fill(column > row, -math.inf)
            p = (s - lse[..., rows, None]).exp()
            ds = p * (g @ v.mT - delta[..., rows, :])
            dv[..., cols, :] += p.mT @ g
            dq[..., rows, :] += ds @ k * scale
            dk[..., cols, :] += ds.mT @ q * scale
    return dq, dk, dv
