"""Attention that never holds a row of scores: one pass, tile by tile.

The softmax needs the largest score and the sum of a whole row, and both can
be kept up to date while the keys go by. What has been seen so far is a
*state*, ``(out, lse)``: the attention over these keys alone, and the log of
its denominator. Two states over different keys merge into the state over
both, exactly and in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from attn.functional.heads import grouped_matmul, pack_groups
from attn.functional.inputs import EVERY, Call, read
from attn.functional.validation import Window
from attn.masks import Mask

__all__ = ["merge_states", "online_softmax", "tiled_attention"]

State = tuple[Tensor, Tensor]


def online_softmax(blocks: Iterable[State]) -> State:
    """Attention over keys that come one block at a time, each seen once.

    Args:
        blocks: pairs of scores ``(..., H, L, S_i)``, ``-inf`` where a query
            may not attend, and values ``(..., Hkv, S_i, Dv)``, the heads of
            which may be shared; at least one pair, each of at least one key.

    Returns:
        ``out``, ``(..., H, L, Dv)``: ``softmax(scores) @ values`` over all
        blocks gives, 0 for a query without a key; and ``lse``,
        ``(..., H, L)``, natural log, ``-inf`` there.

    Source: Milakov and Gimelshein 2018; Rabe and Staats 2021.
    """
    out = highest = total = None
    for scores, value in blocks:
        top = scores.amax(-1, keepdim=True)  # (..., L, 1)
        if highest is not None:
            top = torch.maximum(top, highest)
        # Nothing allowed yet: any finite number keeps exp(-inf) = 0.
        safe = top.masked_fill(top == -torch.inf, 0.0)
        weights = torch.exp(scores - safe)  # (..., L, S_i), not normalised
        if out is None or total is None or highest is None:
            out = grouped_matmul(weights, value)
            total = weights.sum(-1, keepdim=True)
        else:
            fade = torch.exp(highest - safe)  # what was seen, to the new top
            out = out * fade + grouped_matmul(weights, value)
            total = total * fade + weights.sum(-1, keepdim=True)
        highest = top
    if out is None or total is None or highest is None:
        raise ValueError("blocks is empty: it needs at least one")
    seen = total > 0
    out = out / total.where(seen, 1.0)
    lse = (highest + total.log()).where(seen, -torch.inf)
    return out, lse.squeeze(-1)


def merge_states(first: State, second: State) -> State:
    """The attention over two sets of keys, from the attention over each.

    The order does not matter, nor how many are merged in which groups; the
    state of no keys, ``(0, -inf)``, changes nothing.

    Args:
        first, second: ``out``, ``(..., L, Dv)``, and ``lse``, ``(..., L)``,
            natural log, of the same queries over different keys. Without
            sinks: a sink is applied once, after all is merged.

    Returns:
        ``out`` and ``lse`` over both, in the dtypes of ``first``.

    Raises:
        ValueError: the shapes differ.

    Source: Dao et al. 2022, section 3.1; Jacob and others, "split-K".
    """
    for name, i in (("out", 0), ("lse", 1)):
        if first[i].shape != second[i].shape:
            raise ValueError(
                f"second has {name} of shape {tuple(second[i].shape)} and "
                f"first of {tuple(first[i].shape)}: they need the same"
            )
    if first[0].shape[:-1] != first[1].shape:
        raise ValueError(
            f"lse has shape {tuple(first[1].shape)} and out "
            f"{tuple(first[0].shape)}: it needs out's without the last axis"
        )
    lse = torch.logaddexp(first[1], second[1])
    safe = lse.masked_fill(lse == -torch.inf, 0.0)  # no keys in either
    shares = [torch.exp(x[1] - safe)[..., None] for x in (first, second)]
    out = first[0] * shares[0] + second[0] * shares[1]
    return out.to(first[0].dtype), lse


def tiled_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    window: Window | None = None,
    q_offset: int | Tensor | None = None,
    return_lse: bool = False,
    block_q: int = 128,
    block_k: int = 128,
) -> Tensor | State:
    """FlashAttention in plain torch: exact, and no ``L * S`` tensor.

    Forward keeps one tile of scores at a time; backward computes each tile
    again instead of having kept it. Tiles in which nothing may attend are
    skipped.

    Args:
        query, key, value, attn_mask: as in
            ``attn.scaled_dot_product_attention``.
        dropout_p: 0.0; there is no dropout here.
        is_causal, scale, enable_gqa: as there.
        softcap, sinks, window, q_offset, return_lse: as there.
        block_q, block_k: queries and keys of a tile.

    Returns:
        As ``attn.scaled_dot_product_attention``.

    Raises:
        TypeError, ValueError: as there; ``dropout_p`` is not 0, or a block
            has no size.

    Source: Dao et al. 2022, "FlashAttention", algorithms 1 and 4; Dao 2023,
    "FlashAttention-2".
    """
    call = read(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale,
        enable_gqa,
        softcap=softcap,
        sinks=sinks,
        window=window,
        q_offset=q_offset,
    )
    if call.dropout_p:
        raise ValueError(
            f"dropout_p is {call.dropout_p}: tiled_attention has no dropout, "
            "it needs 0.0"
        )
    for name, size in (("block_q", block_q), ("block_k", block_k)):
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} is {size!r}: it needs an int above 0")
    out, lse = _Tiled.apply(
        query, key, value, call.attn_mask, sinks, call, (block_q, block_k)
    )
    return (out, lse) if return_lse else out


class _Tiled(torch.autograd.Function):
    """Forward tile by tile; backward computes each tile again."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None,
        sinks: Tensor | None,
        call: Call,
        blocks: tuple[int, int],
    ) -> State:
        rows, columns = _slices(call, blocks)
        done = [online_softmax(_keys_of(call, r, columns)) for r in rows]
        out = torch.cat([x for x, _ in done], -2)  # (..., H, L, Dv)
        lse = torch.cat([x for _, x in done], -1)  # (..., H, L)
        if sinks is not None:
            out = out * torch.sigmoid(lse - _of_heads(sinks, lse))[..., None]
        ctx.save_for_backward(query, key, value, attn_mask, sinks, out, lse)
        ctx.call, ctx.blocks = call, blocks
        return out.to(query.dtype), lse

    @staticmethod
    def backward(ctx: Any, d_out: Tensor, d_lse: Tensor) -> Any:
        if torch.is_grad_enabled():  # create_graph: it would be left out
            raise RuntimeError(
                "tiled_attention has no second derivative: it needs "
                "create_graph=False (scaled_dot_product_attention has one)"
            )
        query, key, value, attn_mask, sinks, out, lse = ctx.saved_tensors
        call: Call = ctx.call
        d_out = d_out.to(out.dtype)
        # A weight that grows takes from all others: what they lose.
        delta = (d_out * out).sum(-1)  # (..., H, L)
        whole, d_sinks = lse, None  # of the denominator, sink included
        if sinks is not None:
            sink = _of_heads(sinks, lse)
            whole = torch.logaddexp(lse, sink)
            lost = torch.exp(sink - whole) * -delta
            if lost.dim() > 1:
                lost = lost.sum(-1)  # (..., H)
            d_sinks = lost.sum_to_size(sinks.shape).to(sinks.dtype)
        dq, dk, dv = (
            out.new_zeros((*call.batch_shape, *x.shape[-3:]))
            for x in (query, key, value)
        )
        d_mask = None
        if ctx.needs_input_grad[3]:
            d_mask = torch.zeros_like(attn_mask, dtype=out.dtype)

        heads = call.num_kv_heads
        rows, columns = _slices(call, ctx.blocks)
        for r in rows:
            q = query[..., r, :].to(out.dtype)
            g, own = d_out[..., r, :], (..., r, None)
            for c in columns:
                found = _tile(call, r, c)
                if found is None:
                    continue
                scores, slope = found
                k, v = (x[..., c, :].to(out.dtype) for x in (key, value))
                weights = torch.exp(scores - _finite(whole[own]))
                gained = grouped_matmul(g, v.mT)  # (..., H, l, s)
                ds = weights * (gained - delta[own])
                ds = ds + torch.exp(scores - _finite(lse[own])) * d_lse[own]
                if d_mask is not None:
                    part = _part(d_mask, r, c)
                    part += ds.sum_to_size(part.shape)
                ds = ds * (call.scale if slope is None else slope * call.scale)
                dq[..., r, :] += grouped_matmul(ds, k)
                dk[..., c, :] += pack_groups(ds, heads).mT @ pack_groups(
                    q, heads
                )
                dv[..., c, :] += pack_groups(weights, heads).mT @ pack_groups(
                    g, heads
                )
        grads = (
            d.sum_to_size(x.shape).to(x.dtype)
            for d, x in ((dq, query), (dk, key), (dv, value))
        )
        if d_mask is not None:
            d_mask = d_mask.to(attn_mask.dtype)
        return (*grads, d_mask, d_sinks, None, None)


def _keys_of(call: Call, rows: slice, columns: list[slice]) -> Iterator[State]:
    """Scores and values for some queries, tile by tile."""
    dtype = call.compute_dtype
    shape = (*call.scores_shape[:-2], rows.stop - rows.start, 1)
    nobody = call.query.new_full(shape, -torch.inf, dtype=dtype)
    value = call.value
    yield nobody, value.new_zeros((1, value.shape[-1]), dtype=dtype)
    for c in columns:
        found = _tile(call, rows, c)
        if found is not None:
            yield found[0], value[..., c, :].to(dtype)


def _tile(call: Call, rows: slice, columns: slice) -> Any:
    """Scaled, capped and masked scores, ``(..., H, l, s)``.

    Returns:
        The scores, and the slope of the softcap at each (None without
        one); or None where nothing may attend.
    """
    allowed = call.allowed(rows, columns)
    if allowed is not None and not (allowed.is_meta or allowed.any()):
        return None  # a meta tensor does not say
    q, k = (
        x[..., at, :].to(call.compute_dtype)
        for x, at in ((call.query, rows), (call.key, columns))
    )
    scores, slope = grouped_matmul(q, k.mT) * call.scale, None
    if call.softcap is not None:
        squashed = torch.tanh(scores / call.softcap)
        scores, slope = call.softcap * squashed, 1 - squashed.square()
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    if call.attn_mask is not None:
        mask = _part(call.attn_mask, rows, columns)
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, -torch.inf)
        else:
            scores = scores + mask.to(scores.dtype)
    return scores, slope


def _slices(
    call: Call, blocks: tuple[int, int]
) -> tuple[list[slice], list[slice]]:
    """The rows and the columns of the tiles; no queries are one empty row."""
    rows, columns = (
        [slice(i, min(i + size, length)) for i in range(0, length, size)]
        for length, size in zip((call.q_len, call.kv_len), blocks, strict=True)
    )
    return rows or [slice(0, 0)], columns


def _part(mask: Tensor, rows: slice, columns: slice) -> Tensor:
    """The tile of a mask that may be broadcast along either axis: a view."""
    high, wide = mask.shape[-2:]
    return mask[
        ..., rows if high > 1 else EVERY, columns if wide > 1 else EVERY
    ]


def _of_heads(sinks: Tensor, lse: Tensor) -> Tensor:
    """``(H,)`` as it meets ``(..., H, L)``, in the dtype of the sums."""
    return (sinks if lse.dim() == 1 else sinks[:, None]).to(lse.dtype)


def _finite(lse: Tensor) -> Tensor:
    """Any number for a query without a key: its weights are exp(-inf)."""
    return lse.masked_fill(lse == -torch.inf, 0.0)
