"""Measure the mask that an attention function applies, leaks included."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attn import arguments


def dependency_mask(
    attention: Callable[[Tensor, Tensor, Tensor], Tensor],
    q_len: int,
    kv_len: int | None = None,
    q_offset: int = 0,
) -> Tensor:
    """Find which token's output depends on which token, bit by bit.

    Give one token after another a new query, key and value, and mark the
    outputs that change. All three change together: a softmax over the wrong
    axis leaks a later token through its query alone. An output may depend on
    its own query; the diagonal is therefore measured with key and value.

    A pair that is marked is proved. One that is not may be hidden: where
    scores are large, a weight rounds to 0, and nothing moves. The queries are
    small for this reason.

    Args:
        attention: a function of query ``(1, 1, L, 8)``, key and value
            ``(1, 1, S, 8)``, all float32, with its mask built in.
        q_len: number of queries, L.
        kv_len: number of keys, S; L by default.
        q_offset: position of the first query among the keys.

    Returns:
        bool ``(L, S)``, True where the output of a query depends on a key's
        token. NaN that stays NaN depends on nothing.

    Raises:
        ValueError: ``attention`` returns another shape, or draws random
            numbers.

    Example:
        >>> def causal_attention(query, key, value):
        ...     return attn.attention(query, key, value, is_causal=True)
        >>> attn.dependency_mask(causal_attention, 3).long()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 1, 1]])

    Source: the usual test of a causal model, which changes a later token
    and compares the earlier outputs; made into a map here.
    """
    kv_len = q_len if kv_len is None else kv_len
    form = " of query, key and value"
    arguments.function("attention", attention, form)
    arguments.counts(q_len=q_len, kv_len=kv_len)
    arguments.integer("q_offset", q_offset)
    rng = torch.Generator().manual_seed(1)
    q, q_new = torch.randn(2, 1, 1, q_len, 8, generator=rng) / 16
    k, v, k_new, v_new = torch.randn(4, 1, 1, kv_len, 8, generator=rng)
    q_idx = torch.arange(q_len)[:, None] + q_offset  # (L, 1)
    kv_idx = torch.arange(kv_len)[:, None]  # (S, 1)

    def moved(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        after = attention(query.clone(), key.clone(), value.clone())
        same = (after == before) | (after.isnan() & before.isnan())
        return ~same.all(-1)[0, 0]  # (L,)

    before = attention(q.clone(), k.clone(), v.clone())
    if before.dim() != 4 or before.shape[:3] != (1, 1, q_len):
        raise ValueError(
            "attention must return (1, 1, L, Dv), one row for each of "
            f"{q_len} queries; got {tuple(before.shape)}"
        )
    before = before.clone()
    if moved(q, k, v).any():
        raise ValueError(
            "attention must return the same twice; got two results for the "
            "same inputs: switch dropout off"
        )
    columns = []
    for j in range(kv_len):
        key = torch.where(kv_idx == j, k_new, k)
        value = torch.where(kv_idx == j, v_new, v)
        query = torch.where(q_idx == j, q_new, q)
        own = q_idx[:, 0] == j  # (L,)
        columns.append(
            torch.where(own, moved(q, key, value), moved(query, key, value))
        )
    return torch.stack(columns, -1)  # (L, S)
