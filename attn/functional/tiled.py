"""Attention in one pass over the keys, tile by tile, in plain PyTorch.

The softmax needs the maximum and the sum of a whole row; both can be updated
as the keys go by. The result over a part of the keys is a *state*,
``(out, lse)``: the attention over these keys alone, and the log of its
denominator. Two states over different keys merge into the state over both,
exactly and in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.functional.heads import grouped_matmul, pack_groups
from attn.functional.inputs import FULL, AttentionInputs, validate
from attn.functional.validation import Window
from attn.masks import Mask
from attn.masks.combine import apply_masks

State = tuple[Tensor, Tensor]


def online_softmax(blocks: Iterable[State]) -> State:
    """Compute attention over blocks of keys, each read once.

    Args:
        blocks: pairs of scores ``(..., H, L, S_i)``, ``-inf`` where a query
            may not attend, and values ``(..., Hkv, S_i, Dv)``, the heads of
            which may be shared; at least one pair, each of at least one key.

    Returns:
        ``out``, ``(..., H, L, Dv)``: ``softmax(scores) @ values`` over all
        blocks gives, 0 for a query without a key; and ``lse``,
        ``(..., H, L)``, natural log, ``-inf`` there.

    Example:
        >>> scores = torch.zeros(1, 4)
        >>> value = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
        >>> blocks = [(scores[:, i : i + 2], value[i : i + 2]) for i in (0, 2)]
        >>> out, lse = attn.online_softmax(blocks)
        >>> out  # equal scores: the mean
        tensor([[1.5000]])

    Source: Milakov and Gimelshein 2018; Rabe and Staats 2021.
    """
    need = "pairs of scores and values"
    arguments.instance("blocks", blocks, Iterable, need)
    m_i = None
    for block in blocks:
        scores, value = _pair("each block", "scores and values", block)
        m_new = scores.amax(-1, keepdim=True)  # (..., L, 1)
        if m_i is None:
            m_i = torch.full_like(m_new, -torch.inf)
            out = l_i = torch.zeros_like(m_new)
        m_new = torch.maximum(m_new, m_i)
        safe = _finite(m_new)
        weights = torch.exp(scores - safe)  # (..., L, S_i), not normalised
        alpha = torch.exp(m_i - safe)  # rescales to the new maximum
        out = out * alpha + grouped_matmul(weights, value)
        l_i = l_i * alpha + weights.sum(-1, keepdim=True)
        m_i = m_new
    if m_i is None:
        raise ValueError("blocks must hold at least one block; got none")
    attends = l_i > 0
    out = out / l_i.where(attends, 1.0)
    lse = (m_i + l_i.log()).where(attends, -torch.inf)
    return out, lse.squeeze(-1)


def _pair(name: str, of: str, x: Any) -> State:
    """Require two float tensors, whatever holds them."""
    if not isinstance(x, tuple | list) or len(x) != 2:
        raise TypeError(
            f"{name} must be a pair of {of}; got {type(x).__name__}"
        )
    for part in x:
        arguments.tensor(f"{name}, a pair of {of},", part, floating=True)
    return (x[0], x[1])


def merge_states(first: State, second: State) -> State:
    """Merge the attention over two sets of keys into that over both.

    Order and grouping of merges do not matter; the state of no keys,
    ``(0, -inf)``, changes nothing.

    Args:
        first, second: ``out``, ``(..., L, Dv)``, and ``lse``, ``(..., L)``,
            natural log, of the same queries over different keys, without
            sinks: a sink is applied once, after the last merge.

    Returns:
        ``out`` and ``lse`` over both, in the dtypes of ``first``; a
        ValueError is raised when the shapes differ.

    Example:
        >>> query, key, value = torch.randn(3, 6, 8)
        >>> first, second = (
        ...     attn.tiled_attention(query, key[i], value[i], return_lse=True)
        ...     for i in (slice(0, 2), slice(2, 6))
        ... )
        >>> out, lse = attn.merge_states(first, second)
        >>> torch.allclose(out, attn.attention(query, key, value), atol=1e-5)
        True

    Source: Dao et al. 2022, section 3.1; Dao et al. 2023, "Flash-Decoding".
    """
    first = _pair("first", "out and lse", first)
    second = _pair("second", "out and lse", second)
    for name, i in (("out", 0), ("lse", 1)):
        if first[i].shape != second[i].shape:
            raise ValueError(
                f"{name} must have the same shape in first and second; got "
                f"{tuple(first[i].shape)} and {tuple(second[i].shape)}"
            )
    if first[0].shape[:-1] != first[1].shape:
        raise ValueError(
            "lse must have the shape of out without its last axis; got "
            f"{tuple(first[1].shape)} for {tuple(first[0].shape)}"
        )
    lse = torch.logaddexp(first[1], second[1])
    safe = _finite(lse)  # no keys in either
    shares = [torch.exp(x[1] - safe)[..., None] for x in (first, second)]
    out = first[0] * shares[0] + second[0] * shares[1]
    return out.to(first[0].dtype), lse


@arguments.named()
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
    """Compute FlashAttention in plain PyTorch: exact, no ``L * S`` tensor.

    Forward keeps one tile of scores at a time; backward recomputes each
    tile. Fully masked tiles are skipped. Arguments, result and errors are
    those of ``attn.scaled_dot_product_attention``; but ``dropout_p`` must be
    0.0, and a tile has ``block_q`` queries and ``block_k`` keys.

    Example:
        >>> query, key, value = torch.randn(3, 300, 16)
        >>> out = attn.tiled_attention(query, key, value, block_k=64)
        >>> torch.allclose(out, attn.attention(query, key, value), atol=1e-5)
        True

    Source: Dao et al. 2022, "FlashAttention", algorithms 1 and 4; Dao 2023,
    "FlashAttention-2".
    """
    inputs = validate(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa,
        softcap=softcap, sinks=sinks, window=window, q_offset=q_offset,
    )  # fmt: skip
    return tiled(inputs, return_lse, block_q, block_k)


def tiled(
    inputs: AttentionInputs,
    return_lse: bool = False,
    block_q: int = 128,
    block_k: int = 128,
) -> Tensor | State:
    """Compute ``tiled_attention`` on validated inputs."""
    if inputs.dropout_p:
        raise ValueError(
            "dropout_p must be 0.0 in tiled_attention, which has no dropout; "
            f"got {inputs.dropout_p}"
        )
    if tracing.in_functorch():
        raise ValueError(
            "tiled_attention must be called outside transforms of torch.func, "
            "of which it takes none: use grouped_attention"
        )
    arguments.counts(block_q=block_q, block_k=block_k)
    out, lse = _Tiled.apply(
        inputs.query, inputs.key, inputs.value, inputs.attn_mask,
        inputs.sinks, inputs, (block_q, block_k),
    )  # fmt: skip
    return (out, lse) if return_lse else out


class _Tiled(torch.autograd.Function):
    """Forward tile by tile; backward by recomputation."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None,
        sinks: Tensor | None,
        inputs: AttentionInputs,
        tile: tuple[int, int],
    ) -> State:
        rows, columns = _slices(inputs, tile)
        done = [
            online_softmax(_key_blocks(inputs, r, columns))
            for r in rows or [slice(0, 0)]
        ]
        out = torch.cat([x for x, _ in done], -2)  # (..., H, L, Dv)
        lse = torch.cat([x for _, x in done], -1)  # (..., H, L)
        if sinks is not None:
            out = out * torch.sigmoid(lse - _of_heads(sinks, lse))[..., None]
        ctx.save_for_backward(query, key, value, attn_mask, sinks, out, lse)
        ctx.inputs, ctx.tile = inputs, tile
        return out.to(query.dtype), lse

    @staticmethod
    def backward(ctx: Any, d_out: Tensor, d_lse: Tensor) -> Any:
        if torch.is_grad_enabled():  # create_graph: it would be left out
            raise RuntimeError(
                "tiled_attention has no second derivative: pass "
                "create_graph=False, or use scaled_dot_product_attention"
            )
        query, key, value, attn_mask, sinks, out, lse = ctx.saved_tensors
        inputs: AttentionInputs = ctx.inputs
        d_out = d_out.to(out.dtype)
        delta = (d_out * out).sum(-1)  # (..., H, L)
        full_lse, d_sinks = lse, None  # the sink included
        if sinks is not None:
            sink = _of_heads(sinks, lse)
            full_lse = torch.logaddexp(lse, sink)
            lost = torch.exp(sink - full_lse) * -delta
            if lost.dim() > 1:
                lost = lost.sum(-1)  # (..., H)
            d_sinks = lost.sum_to_size(sinks.shape).to(sinks.dtype)
        d_mask = None
        if ctx.needs_input_grad[3]:
            d_mask = torch.zeros_like(attn_mask, dtype=out.dtype)
        found = tile_gradients(
            inputs, ctx.tile, d_out, delta, full_lse, (lse, d_lse), d_mask
        )
        grads = (
            d.sum_to_size(x.shape).to(x.dtype)
            for d, x in zip(found, (query, key, value), strict=True)
        )
        if d_mask is not None:
            d_mask = d_mask.to(attn_mask.dtype)
        return (*grads, d_mask, d_sinks, None, None)


def tile_gradients(
    inputs: AttentionInputs,
    tile: tuple[int, int],
    d_out: Tensor,
    delta: Tensor,
    lse: Tensor,
    of_lse: State | None = None,
    d_mask: Tensor | None = None,
) -> list[Tensor]:
    """Return the gradients of query, key and value; add that of the mask.

    ``lse`` is that of whole rows, sinks included, ``delta`` the sum of
    ``d_out * out``; ``of_lse`` is the ``lse`` returned, and its gradient.
    """
    dq, dk, dv = grads = [
        d_out.new_zeros((*inputs.batch_shape, *x.shape[-3:]))
        for x in (inputs.query, inputs.key, inputs.value)
    ]
    heads, dtype = inputs.num_kv_heads, d_out.dtype
    rows, columns = _slices(inputs, tile)
    for r in rows:
        q = pack_groups(inputs.query[..., r, :].to(dtype), heads)
        g, own = d_out[..., r, :], (..., r, None)
        packed = pack_groups(g, heads)
        for c in columns:
            found = _tile(inputs, r, c)
            if found is None:
                continue
            scores, slope = found
            k = inputs.key[..., c, :].to(dtype)
            v = inputs.value[..., c, :].to(dtype)
            weights = torch.exp(scores - _finite(lse[own]))
            dp = grouped_matmul(g, v.mT)  # (..., H, l, s)
            ds = weights * (dp - delta[own])
            if of_lse is not None:
                share = torch.exp(scores - _finite(of_lse[0][own]))
                ds = ds + share * of_lse[1][own]
            if d_mask is not None:
                part = _part(d_mask, r, c)
                part += ds.sum_to_size(part.shape)
            ds = ds * slope
            dq[..., r, :] += grouped_matmul(ds, k)
            dk[..., c, :] += pack_groups(ds, heads).mT @ q
            dv[..., c, :] += pack_groups(weights, heads).mT @ packed
    return grads


def _slices(
    inputs: AttentionInputs, tile: tuple[int, int]
) -> list[list[slice]]:
    """Cut queries and keys into tiles; the last ones may be shorter."""
    lengths = zip((inputs.q_len, inputs.kv_len), tile, strict=True)
    return [
        [slice(i, min(i + size, length)) for i in range(0, length, size)]
        for length, size in lengths
    ]


def _key_blocks(
    inputs: AttentionInputs, rows: slice, columns: list[slice]
) -> Iterator[State]:
    """Yield scores and values for some queries, tile by tile."""
    dtype = inputs.compute_dtype
    shape = (*inputs.scores_shape[:-2], rows.stop - rows.start, 1)
    masked = inputs.query.new_full(shape, -torch.inf, dtype=dtype)
    value = inputs.value
    yield masked, value.new_zeros((1, value.shape[-1]), dtype=dtype)
    for c in columns:
        found = _tile(inputs, rows, c)
        if found is not None:
            yield found[0], value[..., c, :].to(dtype)


def _tile(inputs: AttentionInputs, rows: slice, columns: slice) -> Any:
    """Return the scores of a tile, ``(..., H, l, s)``, and their slopes.

    A slope is the derivative by ``q @ k``. A fully masked tile is None.
    """
    allowed = inputs.mask_tile(rows, columns)
    if allowed is None or not tracing.has_values(allowed):
        pass
    elif not allowed.any():
        return None
    q, k = (
        x[..., at, :].to(inputs.compute_dtype)
        for x, at in ((inputs.query, rows), (inputs.key, columns))
    )
    slope: Tensor | float = inputs.scale
    scores = grouped_matmul(q, k.mT) * slope
    if inputs.softcap is not None:
        squashed = torch.tanh(scores / inputs.softcap)
        scores = inputs.softcap * squashed
        slope = (1 - squashed.square()) * inputs.scale
    mask = inputs.attn_mask
    mask = None if mask is None else _part(mask, rows, columns)
    return apply_masks(scores, allowed, mask), slope


def _part(mask: Tensor, rows: slice, columns: slice) -> Tensor:
    """Return a tile of a mask, which may broadcast along either axis."""
    high, wide = mask.shape[-2:]
    return mask[..., rows if high > 1 else FULL, columns if wide > 1 else FULL]


def _of_heads(sinks: Tensor, lse: Tensor) -> Tensor:
    """Return ``(H,)`` broadcastable to ``(..., H, L)``, in its dtype."""
    return (sinks if lse.dim() == 1 else sinks[:, None]).to(lse.dtype)


def _finite(lse: Tensor) -> Tensor:
    """Replace ``-inf``: a fully masked row's weights are exp(-inf) anyway."""
    return lse.masked_fill(lse == -torch.inf, 0.0)
