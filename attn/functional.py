"""Attention as functions, from one Python loop to the whole contract.

``scaled_dot_product_attention`` is the specification: slow, exact, and what
every other implementation in the book is checked against.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.contract import Call, Window, read
from attn.masks import Mask

__all__ = [
    "AttentionWeights",
    "attention_loops",
    "attention_weights",
    "grouped_attention",
    "merge_heads",
    "pool_heads",
    "repeat_kv",
    "scaled_dot_product_attention",
    "simple_attention",
    "softmax",
    "split_heads",
]


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Turn scores into positive weights that sum to 1.

    The largest score is taken off first: the weights stay the same, and
    ``exp`` never overflows. Half precision is computed in float32.

    Args:
        x: scores, any shape, any float dtype.
        dim: the axis along which the weights sum to 1.

    Returns:
        The shape and dtype of ``x``. A slice that is ``-inf`` throughout
        gives 0, and passes no gradient back.

    Raises:
        TypeError: ``x`` is not a float tensor.

    Source: Vaswani et al. 2017, equation 1; the shift by the maximum is
    Goodfellow et al. 2016, "Deep Learning", section 4.1.
    """
    if not isinstance(x, Tensor) or not x.is_floating_point():
        got = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"x is {got}: softmax needs a float tensor")
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    scores = x.to(dtype)
    dead = (scores == -torch.inf).all(dim, keepdim=True)
    weights = torch.softmax(scores.masked_fill(dead, 0.0), dim)
    return weights.masked_fill(dead, 0.0).to(x.dtype)


def attention_loops(
    query: Tensor, key: Tensor, value: Tensor, *, scale: float | None = None
) -> Tensor:
    """Attention for one head, one number at a time.

    Nothing is batched and nothing is clever: this is the definition. It is
    as slow as it looks.

    Args:
        query: ``(L, D)``, any float dtype.
        key: ``(S, D)``.
        value: ``(S, Dv)``.
        scale: factor on the scores, ``D ** -0.5`` when None.

    Returns:
        ``(L, Dv)``, in the dtype of ``query``.

    Raises:
        ValueError: a shape does not fit.

    Source: Vaswani et al. 2017, equation 1.
    """
    call = read(query, key, value, scale=scale)
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 2:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}: attention_loops needs "
                "two axes, (sequence, head_dim)"
            )
    q, k, v = (x.to(call.compute_dtype) for x in (query, key, value))
    out = torch.zeros(len(q), v.shape[1], dtype=q.dtype, device=q.device)
    zero = q.new_zeros(())
    if len(k) == 0:
        return out.to(query.dtype)  # nothing to attend to
    for i in range(len(q)):  # for every query,
        scores = []
        for j in range(len(k)):  # compare it with every key,
            dot = sum((q[i, d] * k[j, d] for d in range(q.shape[1])), zero)
            scores.append(dot * call.scale)
        largest = max(scores)
        exps = [torch.exp(score - largest) for score in scores]
        total = sum(exps)
        for j in range(len(k)):  # and mix the values by the weights.
            weight = exps[j] / total
            for d in range(v.shape[1]):
                out[i, d] = out[i, d] + weight * v[j, d]
    return out.to(query.dtype)


def simple_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Attention in matrix form: what a paper shows and a blog post copies.

    It keeps every flaw of its kind, for the chapters to point at: a row
    that may attend to nothing gives NaN, half precision stays half, and
    nothing is checked.

    Args:
        query: ``(..., L, D)``.
        key: ``(..., S, D)``.
        value: ``(..., S, Dv)``.
        attn_mask: bool (True = may attend) or additive float, broadcastable
            to ``(..., L, S)``.
        dropout_p: probability that a weight is dropped.
        is_causal: query ``i`` sees keys ``0`` to ``i`` only.
        scale: factor on the scores, ``D ** -0.5`` when None.

    Returns:
        ``(..., L, Dv)``.

    Source: the pseudo-code in the docstring of
    ``torch.nn.functional.scaled_dot_product_attention``.
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.mT * scale  # (..., L, S)
    if is_causal:
        keep = torch.ones_like(scores, dtype=torch.bool).tril()
        scores = scores.masked_fill(~keep, -math.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = F.dropout(torch.softmax(scores, -1), dropout_p)
    return weights @ value  # (..., L, Dv)


def scaled_dot_product_attention(
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
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention, with everything that today's models ask of it.

    In this order: scores, scale, softcap, masks, sinks, softmax, dropout,
    values. Scores and softmax are float32 (float64 for float64 input). A
    query that may attend to nothing gets 0, and passes no gradient back.

    Args:
        query: ``(..., H, L, D)``; float16, bfloat16, float32 or float64.
            Two axes, ``(L, D)``, are one head.
        key: ``(..., Hkv, S, D)``, of the same dtype.
        value: ``(..., Hkv, S, Dv)``, of the same dtype.
        attn_mask: who may attend to whom: bool (True = may attend) or float
            to be added to the scores, broadcastable to ``(..., H, L, S)``;
            or a ``Mask`` over positions.
        dropout_p: probability that a weight is dropped, the rest being
            scaled up. It always applies: pass 0.0 in evaluation.
        is_causal: a query sees the keys up to its own position. Together
            with ``attn_mask``, both apply.
        scale: factor on the scores, ``D ** -0.5`` when None.
        enable_gqa: let query head ``h`` read key head ``h // G``.
        softcap: squash the scaled scores to ``softcap * tanh(s / softcap)``,
            before any mask.
        sinks: one logit a query head, ``(H,)``, that takes part in the
            softmax and has no value: attention may go nowhere.
        window: ``(left, right)`` neighbours kept besides the token itself,
            None = no bound on that side.
        q_offset: position of the first query among the keys, an int or one
            for each batch row, ``(B,)``: 0 when both start together (the
            default, as in torch), ``S - L`` when the queries are the last
            tokens. It moves ``is_causal``, ``window`` and ``Mask`` alike.
        return_lse: also return the log of the softmax's denominator.

    Returns:
        ``(..., H, L, Dv)`` in the dtype of ``query``; with ``return_lse``
        also ``(..., H, L)``, natural log, float32 or float64, over the keys
        only (without the sink), ``-inf`` where there is no key.

    Raises:
        TypeError, ValueError: an argument is wrong; the message names the
            argument, what it got and what it needs.

    Source: ``torch.nn.functional.scaled_dot_product_attention``; softcap
    from Gemma 2 (2024), sinks from gpt-oss (2025) after Xiao et al. 2023,
    window from ONNX ``Attention``.
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
    scores = _scores(call)  # (..., H, L, S)
    weights = _weights(scores, call)
    v = repeat_kv(call.value, call.group_size).to(call.compute_dtype)
    out = (weights @ v).to(query.dtype)  # (..., H, L, Dv)
    return (out, _lse(scores)) if return_lse else out


class AttentionWeights(NamedTuple):
    """What ``attention_weights`` returns.

    ``scores`` are the scaled, capped and masked logits, ``-inf`` where a
    query may not attend; ``weights`` are what multiplies the values. Both
    are ``(..., H, L, S)``, float32 or float64.
    """

    scores: Tensor
    weights: Tensor


def attention_weights(
    query: Tensor,
    key: Tensor,
    value: Tensor | None = None,
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
) -> AttentionWeights:
    """The scores and the weights of ``scaled_dot_product_attention``.

    Args:
        query, key: as in ``scaled_dot_product_attention``.
        value: takes no part; checked when given, so that a call can be
            moved from one function to the other.
        attn_mask, dropout_p, is_causal, scale, enable_gqa, softcap, sinks,
            window, q_offset: as in ``scaled_dot_product_attention``.

    Returns:
        ``scores`` and ``weights``. A row of weights sums to 1, to less with
        a sink, to 0 when there is nothing to attend to.

    Raises:
        TypeError, ValueError: as in ``scaled_dot_product_attention``.
    """
    call = read(
        query,
        key,
        key if value is None else value,
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
    scores = _scores(call)
    return AttentionWeights(scores, _weights(scores, call))


def grouped_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = True,
    *,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    window: Window | None = None,
    q_offset: int | Tensor | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Grouped-query attention that never copies a key or a value.

    The ``G`` query heads of a group stand one after the other as if they
    were one long sequence of queries for their key head.

    Args:
        query, key, value, attn_mask, dropout_p, is_causal, scale,
            enable_gqa, softcap, sinks, window, q_offset, return_lse: as in
            ``scaled_dot_product_attention``.

    Returns:
        As ``scaled_dot_product_attention``.

    Raises:
        TypeError, ValueError: as in ``scaled_dot_product_attention``.

    Source: Ainslie et al. 2023, "GQA", section 2.
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
    heads, groups = call.num_heads, call.num_kv_heads

    def pack(x: Tensor) -> Tensor:  # (..., H, L, X) -> (..., Hkv, G*L, X)
        if heads == groups:
            return x
        return x.unflatten(-3, (groups, call.group_size)).flatten(-3, -2)

    def unpack(x: Tensor) -> Tensor:  # (..., Hkv, G*L, X) -> (..., H, L, X)
        if heads == groups:
            return x
        rows = (call.group_size, call.q_len)
        return x.unflatten(-2, rows).flatten(-4, -3)

    q = pack(query.to(call.compute_dtype))
    logits = unpack(q @ key.to(call.compute_dtype).mT)  # (..., H, L, S)
    scores = _cap_and_mask(logits, call)
    weights = pack(_weights(scores, call))
    out = unpack(weights @ value.to(call.compute_dtype)).to(query.dtype)
    return (out, _lse(scores)) if return_lse else out


def _scores(call: Call) -> Tensor:
    """Scaled, capped and masked logits, ``(..., H, L, S)``."""
    k = repeat_kv(call.key, call.group_size).to(call.compute_dtype)
    return _cap_and_mask(call.query.to(call.compute_dtype) @ k.mT, call)


def _cap_and_mask(logits: Tensor, call: Call) -> Tensor:
    """Here, and only here, a mask is applied."""
    scores = logits * call.scale
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    allowed = call.allowed()
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    if call.attn_mask is None:
        return scores
    if call.attn_mask.dtype == torch.bool:
        return scores.masked_fill(~call.attn_mask, -torch.inf)
    return scores + call.attn_mask.to(scores.dtype)


def _weights(scores: Tensor, call: Call) -> Tensor:
    """Softmax over the keys and the sink; the sink's weight is dropped."""
    if call.sinks is None:
        weights = softmax(scores)
    else:
        sink = call.sinks.to(scores.dtype)[:, None, None]  # (H, 1, 1)
        sink = sink.reshape(sink.shape[-min(scores.dim(), 3) :])
        column = sink.expand(*scores.shape[:-1], 1)
        weights = softmax(torch.cat([scores, column], -1))[..., :-1]
    return F.dropout(weights, call.dropout_p)


def _lse(scores: Tensor) -> Tensor:
    """``log(sum(exp(scores)))`` over the keys; ``-inf`` without a key."""
    dead = (scores == -torch.inf).all(-1)
    safe = scores.masked_fill(dead[..., None], 0.0)
    return torch.logsumexp(safe, -1).masked_fill(dead, -torch.inf)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    """Give every query head its own copy of the key or value head it shares.

    Head ``h`` of the result is head ``h // n_rep`` of ``x`` (``0, 0, 1, 1``,
    not ``0, 1, 0, 1``).

    Args:
        x: keys or values, ``(..., Hkv, S, D)``.
        n_rep: query heads per key/value head, at least 1.

    Returns:
        ``(..., Hkv * n_rep, S, D)``; ``x`` itself when ``n_rep`` is 1.

    Raises:
        ValueError: ``n_rep`` is less than 1, or ``x`` has no head axis.

    Source: Ainslie et al. 2023, "GQA", section 2.
    """
    if isinstance(n_rep, bool) or not isinstance(n_rep, int) or n_rep < 1:
        raise ValueError(f"n_rep is {n_rep!r}: it needs an int, at least 1")
    if n_rep == 1:
        return x
    if x.dim() < 3:
        raise ValueError(
            f"x has shape {tuple(x.shape)}: it needs a head axis, "
            "(..., Hkv, S, D)"
        )
    return x.repeat_interleave(n_rep, dim=-3)


def pool_heads(weight: Tensor, num_heads: int, num_kv_heads: int) -> Tensor:
    """Turn the key or value projection of MHA into one of GQA.

    Each new head is the mean of the ``G`` old heads that it replaces.

    Args:
        weight: a ``Linear`` weight, ``(H * D, E)``, or its bias, ``(H * D,)``.
        num_heads: ``H``, heads of ``weight``.
        num_kv_heads: ``Hkv``, heads wanted; divides ``H``.

    Returns:
        ``(Hkv * D, E)`` or ``(Hkv * D,)``.

    Raises:
        ValueError: the head counts do not divide.

    Source: Ainslie et al. 2023, "GQA", section 2.1.
    """
    if num_kv_heads < 1 or num_heads % num_kv_heads:
        raise ValueError(
            f"num_kv_heads is {num_kv_heads} and num_heads {num_heads}: it "
            "needs a divisor"
        )
    if num_heads < 1 or weight.shape[0] % num_heads:
        raise ValueError(
            f"weight has {weight.shape[0]} rows: {num_heads} heads need a "
            "multiple"
        )
    group = num_heads // num_kv_heads
    heads = weight.unflatten(0, (num_kv_heads, group, -1))  # (Hkv, G, D, ...)
    return heads.mean(1).flatten(0, 1)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut the embedding into heads and bring the head axis forward.

    Args:
        x: ``(..., L, H * D)``.
        num_heads: ``H``.

    Returns:
        ``(..., H, L, D)``, a view.

    Raises:
        ValueError: the embedding does not divide into ``num_heads``.

    Source: Vaswani et al. 2017, section 3.2.2.
    """
    if x.dim() < 2:
        raise ValueError(
            f"x has shape {tuple(x.shape)}: it needs (..., L, H * D)"
        )
    if num_heads < 1 or x.shape[-1] % num_heads:
        raise ValueError(
            f"x has an embedding of {x.shape[-1]}: num_heads = {num_heads} "
            "needs a multiple"
        )
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


def merge_heads(x: Tensor) -> Tensor:
    """Put the heads of each token back side by side.

    Args:
        x: ``(..., H, L, D)``.

    Returns:
        ``(..., L, H * D)``.

    Source: Vaswani et al. 2017, section 3.2.2, "Concat".
    """
    if x.dim() < 3:
        raise ValueError(
            f"x has shape {tuple(x.shape)}: it needs (..., H, L, D)"
        )
    return x.transpose(-3, -2).flatten(-2)
