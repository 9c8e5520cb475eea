"""Solutions of chapter 08. Each signature and docstring is the task."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Compute attention by PyTorch's contract, argument by argument.

    PyTorch's own attention is not allowed, in any spelling. A query
    that may attend to nothing gives 0 and passes no gradient back. With
    ``is_causal`` and a mask, both apply. float16 and bfloat16 are
    computed in float32, values included, and rounded once, to the
    query's dtype. The check goes through the arguments one by one, then
    through their combinations.

    Args:
        query: ``(..., H, L, D)``; without heads ``(L, D)``.
        key: ``(..., Hkv, S, D)``.
        value: ``(..., Hkv, S, Dv)``.
        attn_mask: bool, True = may attend, or float, added to the
            scaled scores, in the query's dtype or float32;
            broadcastable to ``(..., H, L, S)``.
        dropout_p: probability that a weight is dropped, by a coin of
            its own. It always applies: a function has no training mode.
        is_causal: query i attends to keys 0 to i, even if L != S.
        scale: factor on the scores; None means ``1 / sqrt(D)``.
        enable_gqa: query head ``h`` reads key head ``h // (H // Hkv)``;
            without it, Hkv is H.

    Returns:
        ``(..., H, L, Dv)``.
    """
    dtype = torch.promote_types(query.dtype, torch.float32)
    q, k, v = (x.to(dtype) for x in (query, key, value))
    if enable_gqa:
        k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
        v = v.repeat_interleave(q.shape[-3] // v.shape[-3], -3)
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1])
    scores = q @ k.mT * scale  # (..., H, L, S)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask.to(dtype)
    if is_causal:
        past = torch.ones(scores.shape[-2:]).tril().bool()  # (L, S)
        scores = scores.masked_fill(~past, -math.inf)
    dead = (scores == -math.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(dead, 0).softmax(-1)
    weights = F.dropout(weights.masked_fill(dead, 0), dropout_p)
    return (weights @ v).to(query.dtype)  # (..., H, L, Dv)


def causal_lower_right(q_len: int, kv_len: int) -> Tensor:
    """Make the causal mask for queries that are the last tokens.

    With a cache, the L queries are the last L of S tokens: the last
    query sees every key, the one before it all but the last.
    ``is_causal=True`` counts from the first key instead, and a decoding
    step would see key 0 alone. The check compares every entry, for more
    queries than keys too (then the first ones are fully masked).

    Args:
        q_len: number of queries, L.
        kv_len: number of keys, S.

    Returns:
        bool ``(L, S)``, True = may attend.
    """
    full = torch.ones(q_len, kv_len, dtype=torch.bool)
    return full.tril(kv_len - q_len)


def softcap(
    scores: Tensor, cap: float, attn_mask: Tensor | None = None
) -> Tensor:
    """Keep scores within bounds, as Gemma 2 does.

    A scaled score ``s`` becomes ``cap * tanh(s / cap)``: small ones
    hardly change, none passes the cap. Then the mask: -inf where a
    query may not attend. The check uses small and large scores and
    caps, and gradients. The order of the two steps is what goes wrong
    in silence, and it has.

    Args:
        scores: ``(..., H, L, S)``, already scaled.
        cap: the bound, above 0.
        attn_mask: bool, True = may attend, broadcastable to the scores.

    Returns:
        What goes into the softmax, in the shape of ``scores``.
    """
    capped = cap * torch.tanh(scores / cap)
    if attn_mask is None:
        return capped
    return capped.masked_fill(~attn_mask, -math.inf)


def sinks(scores: Tensor, sinks: Tensor) -> Tensor:
    """Apply a softmax with a sink for each head, as in gpt-oss.

    Each head has one learned logit, its sink, that takes part in the
    softmax of every query like the score of one more key, which has no
    value: its weight is dropped, and the rest sums to less than 1.
    The check uses scores of 1000, sinks of -1000 and 1000, queries
    without a key (all scores -inf: their weights are 0), and gradients.

    Args:
        scores: ``(..., H, L, S)``, scaled and masked.
        sinks: ``(H,)``, a logit a head, always finite, in the dtype of
            ``scores``.

    Returns:
        The weights of the keys, ``(..., H, L, S)``, in that dtype.
    """
    column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
    logits = torch.cat([scores, column], -1)  # (..., H, L, S + 1)
    return logits.softmax(-1)[..., :-1]
