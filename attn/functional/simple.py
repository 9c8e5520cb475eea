"""The first attention functions of the book, to be read: loops, matrices."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import arguments, tracing
from attn.functional.inputs import validate


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Convert scores into positive weights that sum to 1.

    The maximum is subtracted first: the weights stay the same, and ``exp``
    never overflows. Half precision is computed in float32.

    Args:
        x: scores, any shape, any float dtype; a TypeError for another.
        dim: the axis along which the weights sum to 1.

    Returns:
        The shape and dtype of ``x``. A slice of ``-inf`` alone gives 0 and
        passes no gradient back.

    Example:
        >>> attn.softmax(torch.tensor([0.0, 0.0, -torch.inf]))
        tensor([0.5000, 0.5000, 0.0000])
        >>> attn.softmax(torch.tensor([-torch.inf, -torch.inf]))
        tensor([0., 0.])

    Source: Vaswani et al. 2017, equation 1; the shift by the maximum is
    Goodfellow et al. 2016, "Deep Learning", section 4.1.
    """
    arguments.tensor("x", x, floating=True)
    arguments.integer("dim", dim)
    if not -max(x.dim(), 1) <= dim < max(x.dim(), 1):
        raise ValueError(
            f"dim must be an axis of x, of shape {tuple(x.shape)}; got {dim}"
        )
    scores = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    dead = (scores == -torch.inf).all(dim, keepdim=True)
    weights = torch.softmax(scores.masked_fill(dead, 0.0), dim)
    return weights.masked_fill(dead, 0.0).to(x.dtype)


@arguments.named()
def attention_loops(
    query: Tensor, key: Tensor, value: Tensor, *, scale: float | None = None
) -> Tensor:
    """Compute attention for one head, one element at a time.

    Nothing is batched and nothing is clever: this is the definition. It is
    as slow as it looks.

    Arguments, result and errors are those of
    ``scaled_dot_product_attention``, with two axes only: ``(L, D)``,
    ``(S, D)`` and ``(S, Dv)`` give ``(L, Dv)``.

    Example:
        >>> query = torch.zeros(1, 2)  # as close to one key as to another
        >>> key = torch.eye(2)
        >>> value = torch.tensor([[1.0], [3.0]])
        >>> attn.attention_loops(query, key, value)
        tensor([[2.]])

    Source: Vaswani et al. 2017, equation 1.
    """
    inputs = validate(query, key, value, scale=scale)
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 2:
            raise ValueError(
                f"{name} must have two axes, (sequence, head_dim); got "
                f"{tuple(x.shape)}"
            )
    tracing.require_values("which it compares", query=query, key=key)
    q, k, v = (x.to(inputs.compute_dtype) for x in (query, key, value))
    out = torch.zeros(len(q), v.shape[1], dtype=q.dtype, device=q.device)
    zero = q.new_zeros(())
    if len(k) == 0:
        return out.to(query.dtype)  # nothing to attend to
    for i in range(len(q)):  # for every query,
        scores = []
        for j in range(len(k)):  # compare it with every key,
            dot = sum((q[i, d] * k[j, d] for d in range(q.shape[1])), zero)
            scores.append(dot * inputs.scale)
        largest = max(scores)
        exps = [torch.exp(score - largest) for score in scores]
        total = sum(exps)
        for j in range(len(k)):  # and mix the values by the weights.
            weight = exps[j] / total
            for d in range(v.shape[1]):
                out[i, d] = out[i, d] + weight * v[j, d]
    return out.to(query.dtype)


@arguments.named()
def simple_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Compute attention in matrix form, as papers and blog posts do.

    It keeps every flaw of its kind, for the chapters to point at: a fully
    masked row is NaN, half precision stays half, nothing is validated but
    that the mask is a tensor. Arguments and result are those of
    ``scaled_dot_product_attention``.

    Example:
        >>> x = torch.randn(2, 5, 8)  # 2 heads, 5 tokens
        >>> out = attn.simple_attention(x, x, x, is_causal=True)
        >>> torch.equal(out[:, 0], x[:, 0])  # it sees no other token
        True

    Source: the pseudo-code in the docstring of
    ``torch.nn.functional.scaled_dot_product_attention``.
    """
    if not (attn_mask is None or isinstance(attn_mask, Tensor)):
        raise TypeError(
            f"attn_mask must be a tensor; got {type(attn_mask).__name__}: "
            "Mask.dense(L, S) makes one"
        )
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
