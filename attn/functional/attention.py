"""Attention as functions: the whole contract.

``scaled_dot_product_attention`` is the specification: slow, exact, and what
every other implementation in the book is checked against.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.functional.heads import (
    grouped_matmul,
    repeat_kv,
)
from attn.functional.inputs import Call, read
from attn.functional.simple import softmax
from attn.functional.validation import Window
from attn.masks import Mask

__all__ = [
    "AttentionWeights",
    "attention_weights",
    "grouped_attention",
    "scaled_dot_product_attention",
]


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
        attn_mask, dropout_p, is_causal, scale, enable_gqa: as in
            ``scaled_dot_product_attention``.
        softcap, sinks, window, q_offset: as in
            ``scaled_dot_product_attention``.

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
    were one long sequence of queries for their key head. (Half precision is
    converted to float32, once for each key head.)

    Args:
        query, key, value, attn_mask, dropout_p, is_causal, scale: as in
            ``scaled_dot_product_attention``.
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
    k, v = (x.to(call.compute_dtype) for x in (key, value))
    scores = _cap_and_mask(
        grouped_matmul(query.to(call.compute_dtype), k.mT), call
    )
    out = grouped_matmul(_weights(scores, call), v).to(query.dtype)
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
