"""Attention as functions: the whole contract.

``scaled_dot_product_attention`` is the specification: slow, exact, and what
every other implementation in the book is checked against.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import arguments
from attn.functional.heads import grouped_matmul, repeat_kv
from attn.functional.inputs import (
    AttentionInputs,
    OptionsWithoutMask,
    validate,
)
from attn.functional.simple import softmax
from attn.functional.validation import Window
from attn.masks import Mask
from attn.masks.combine import apply_masks

# With return_lse, the lse too.
Result: TypeAlias = "Tensor | tuple[Tensor, Tensor]"


@arguments.named()
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
) -> Result:
    """Compute attention, with every option that current models need.

    In this order: scores, scale, softcap, masks, sinks, softmax, dropout,
    values. Scores and softmax are float32 (float64 for float64 input). A
    query that may attend to nothing gives 0 and passes no gradient back.

    Args:
        query: ``(..., H, L, D)``; float16, bfloat16, float32 or float64.
            Two axes, ``(L, D)``, are one head.
        key: ``(..., Hkv, S, D)``, of the same dtype.
        value: ``(..., Hkv, S, Dv)``, of the same dtype.
        attn_mask: bool (True = may attend) or float, added to the scores;
            broadcastable to ``(..., H, L, S)``. Or a ``Mask`` over positions.
        dropout_p: probability of dropping a weight; the others are scaled
            up. It always applies: pass 0.0 in evaluation.
        is_causal: mask the keys after the query's own position. Together
            with ``attn_mask``, both apply.
        scale: factor on the scores, ``D ** -0.5`` when None.
        enable_gqa: let query head ``h`` read key head ``h // G``.
        softcap: squash the scaled scores to ``softcap * tanh(s / softcap)``,
            before any mask.
        sinks: one logit a query head, ``(H,)``, that takes part in the
            softmax and has no value: attention may go nowhere.
        window: ``(left, right)`` neighbours kept in addition to the token
            itself; None is no bound on that side.
        q_offset: position of the first query among the keys, an int or a
            tensor, ``()`` or one for each batch row, ``(B,)``: 0 when both
            start together (the default, as in torch), ``S - L`` when the
            queries are the last tokens. It moves ``is_causal``, ``window``
            and ``Mask`` alike. A graph is compiled once for all tensors,
            and again for another int.
        return_lse: also return the log of the softmax's denominator.

    Returns:
        ``(..., H, L, Dv)`` in the dtype of ``query``; with ``return_lse``
        also ``(..., H, L)``, natural log, float32 or float64, over the keys
        only (without the sink), ``-inf`` where there is no key.

    Raises:
        TypeError, ValueError: an argument is wrong; the message says what it
            must be and what it is.

    Example:
        >>> query = torch.randn(1, 8, 1, 16)  # the newest token, 8 heads
        >>> key, value = torch.randn(2, 1, 2, 10, 16)  # 10 tokens, 2 heads
        >>> out, lse = attn.scaled_dot_product_attention(
        ...     query, key, value, is_causal=True, enable_gqa=True,
        ...     window=(3, 0), q_offset=9, return_lse=True,
        ... )
        >>> out.shape, lse.shape
        (torch.Size([1, 8, 1, 16]), torch.Size([1, 8, 1]))

    Source: ``torch.nn.functional.scaled_dot_product_attention``; softcap
    from Gemma 2 (2024), sinks from gpt-oss (2025) after Xiao et al. 2023,
    window from ONNX ``Attention``.
    """
    inputs = validate(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa,
        softcap=softcap, sinks=sinks, window=window, q_offset=q_offset,
    )  # fmt: skip
    return reference(inputs, return_lse)


class AttentionWeights(NamedTuple):
    """The result of ``attention_weights``.

    ``scores`` are the scaled, capped and masked logits, ``-inf`` where a
    query may not attend; ``weights`` are what multiplies the values. Both
    are ``(..., H, L, S)``, float32 or float64.

    Example:
        >>> x = torch.eye(2)
        >>> found = attn.attention_weights(x, x, is_causal=True, scale=1.0)
        >>> found.scores
        tensor([[1., -inf],
                [0., 1.]])
        >>> found.weights[0]
        tensor([1., 0.])
    """

    scores: Tensor
    weights: Tensor


@arguments.named(*OptionsWithoutMask.__annotations__)
def attention_weights(
    query: Tensor,
    key: Tensor,
    value: Tensor | None = None,
    attn_mask: Tensor | Mask | None = None,
    **options: Unpack[OptionsWithoutMask],
) -> AttentionWeights:
    """Return the scores and weights of ``scaled_dot_product_attention``.

    Arguments and errors are the same; ``value`` is validated when given, so
    that a call can be moved from one function to the other. A row of weights
    sums to 1, to less with a sink, to 0 when it is fully masked.

    Example:
        >>> x = torch.zeros(3, 4)
        >>> scores, weights = attn.attention_weights(x, x, is_causal=True)
        >>> weights
        tensor([[1.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000],
                [0.3333, 0.3333, 0.3333]])
    """
    value = key if value is None else value
    inputs = validate(query, key, value, attn_mask, **options)
    scores = _scores(inputs)
    return AttentionWeights(scores, _weights(scores, inputs))


@arguments.named()
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
) -> Result:
    """Compute grouped-query attention without copying a key or a value.

    The heads of a group share keys and values, not weights: their queries
    differ. The queries of its ``G`` heads are packed into one long sequence
    for their key head. (Half precision is converted to float32,
    once for each key head.) Arguments, result and errors are those of
    ``scaled_dot_product_attention``.

    Example:
        >>> query = torch.randn(8, 10, 16)  # (H, L, D)
        >>> key, value = torch.randn(2, 2, 10, 16)  # (Hkv, S, D) each
        >>> out = attn.grouped_attention(query, key, value)
        >>> copies = [attn.repeat_kv(x, 4) for x in (key, value)]
        >>> torch.allclose(out, attn.attention(query, *copies), atol=1e-5)
        True

    Source: Ainslie et al. 2023, "GQA", section 2.
    """
    inputs = validate(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa,
        softcap=softcap, sinks=sinks, window=window, q_offset=q_offset,
    )  # fmt: skip
    return grouped(inputs, return_lse)


def reference(inputs: AttentionInputs, return_lse: bool = False) -> Result:
    """Compute ``scaled_dot_product_attention`` on validated inputs."""
    scores = _scores(inputs)  # (..., H, L, S)
    v = repeat_kv(inputs.value, inputs.group_size).to(inputs.compute_dtype)
    out = (_weights(scores, inputs) @ v).to(inputs.query.dtype)
    return (out, _lse(scores)) if return_lse else out


def grouped(inputs: AttentionInputs, return_lse: bool = False) -> Result:
    """Compute ``grouped_attention`` on validated inputs."""
    q, k, v = (x.to(inputs.compute_dtype) for x in inputs.qkv)
    scores = _cap_and_mask(grouped_matmul(q, k.mT), inputs)
    out = grouped_matmul(_weights(scores, inputs), v).to(inputs.query.dtype)
    return (out, _lse(scores)) if return_lse else out


def _scores(inputs: AttentionInputs) -> Tensor:
    """Return scaled, capped and masked logits, ``(..., H, L, S)``."""
    k = repeat_kv(inputs.key, inputs.group_size).to(inputs.compute_dtype)
    return _cap_and_mask(inputs.query.to(inputs.compute_dtype) @ k.mT, inputs)


def _cap_and_mask(logits: Tensor, inputs: AttentionInputs) -> Tensor:
    scores = logits * inputs.scale
    if inputs.softcap is not None:
        scores = inputs.softcap * torch.tanh(scores / inputs.softcap)
    return apply_masks(scores, inputs.mask_tile(), inputs.attn_mask)


def _weights(scores: Tensor, inputs: AttentionInputs) -> Tensor:
    """Apply softmax over keys and sink; the sink's weight is dropped."""
    if inputs.sinks is None:
        weights = softmax(scores)
    else:
        sink = inputs.sinks.to(scores.dtype)[:, None, None]  # (H, 1, 1)
        sink = sink.reshape(sink.shape[-min(scores.dim(), 3) :])
        column = sink.expand(*scores.shape[:-1], 1)
        weights = softmax(torch.cat([scores, column], -1))[..., :-1]
    return F.dropout(weights, inputs.dropout_p)


def _lse(scores: Tensor) -> Tensor:
    """Return ``log(sum(exp(scores)))``; ``-inf`` for a fully masked row."""
    dead = (scores == -torch.inf).all(-1)
    safe = scores.masked_fill(dead[..., None], 0.0)
    return torch.logsumexp(safe, -1).masked_fill(dead, -torch.inf)
