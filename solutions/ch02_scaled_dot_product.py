"""Solutions of chapter 02. Each signature and docstring is the task."""

import math

import torch
from torch import Tensor, nn


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Turn scores into positive weights that sum to 1 along ``dim``.

    Build it from ``exp``, sums and maxima, without PyTorch's own
    softmax in any spelling, and leave ``x`` as it is. The check tries
    every axis, scores of 1000 and -1000, slices with very different
    maxima, single ``-inf`` entries (never a whole slice), float32,
    float16 and bfloat16, and the gradient. Every attention layer goes
    through this function: a NaN here spreads to all that reads it.

    Args:
        x: scores, any shape, any float dtype.
        dim: the axis along which the weights sum to 1.

    Returns:
        The weights, in the shape and dtype of ``x``.
    """
    highest = x.amax(dim, keepdim=True)  # one for each slice
    exps = torch.exp(x - highest)  # never above 1
    return exps / exps.sum(dim, keepdim=True)


def attention_loops(
    query: Tensor, key: Tensor, value: Tensor
) -> Tensor:
    """Compute attention for one head, in loops.

    For every query, take its dot product with every key, divided by the
    square root of ``D``; the softmax of these scores; and the mean of
    the values under these weights. Write out as many of the loops as
    you like, with tensors or Python floats, and use your ``softmax``.
    The check compares results only (float32; scores of 1000; no
    gradients) and refuses PyTorch's own attention. After this, the
    matrix form holds no secrets.

    Args:
        query: ``(L, D)``.
        key: ``(S, D)``.
        value: ``(S, Dv)``.

    Returns:
        ``(L, Dv)``, float32 like the inputs.
    """
    (L, D), (S, Dv) = query.shape, value.shape
    out = torch.zeros(L, Dv)
    for i in range(L):
        scores = torch.zeros(S)
        for j in range(S):
            for d in range(D):
                scores[j] += query[i, d] * key[j, d]
        weights = softmax(scores / math.sqrt(D))
        for j in range(S):
            out[i] += weights[j] * value[j]
    return out


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float | None = None,
) -> Tensor:
    """Compute attention with matrices, for any number of leading axes.

    No loop is needed, and any means is allowed except PyTorch's own
    attention: this is it. The check uses two to five axes, float32,
    float64 and bfloat16 (the result keeps the dtype of the inputs),
    views, large scores, and gradients; the inputs stay as they are.
    This function, with a mask added in the next chapter, is the heart
    of every transformer.

    Args:
        query: ``(..., L, D)``.
        key: ``(..., S, D)``.
        value: ``(..., S, Dv)``.
        scale: factor on the scores; None means ``1 / sqrt(D)``. Any
            number is used as given, even 0.0.

    Returns:
        ``(..., L, Dv)``.
    """
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])
    scores = query @ key.mT * scale  # (..., L, S)
    return softmax(scores) @ value  # (..., L, Dv)


def logit_variance(query: Tensor, key: Tensor) -> tuple[float, float]:
    """Measure what the factor ``1 / sqrt(D)`` does to the scores.

    Take the dot product of row ``n`` of ``query`` with row ``n`` of
    ``key``: ``N`` scores. Return a pair: the variance of these scores,
    and the variance of the scores times the factor. The check expects
    what ``torch.var`` gives by default (a sum divided by ``N - 1``),
    for inputs of any mean, spread, ``N`` and ``D``. The result shows
    what the scale is for.

    Args:
        query: ``(N, D)``.
        key: ``(N, D)``.

    Returns:
        A tuple of two numbers, ``(before, after)``, floats or 0-dim
        tensors.
    """
    dots = (query * key).sum(-1)  # (N,)
    scaled = dots / math.sqrt(query.shape[-1])
    return dots.var().item(), scaled.var().item()


class SelfAttention(nn.Module):
    """One head of self-attention: a sequence attends to itself.

    Three linear maps without bias, named ``q_proj``, ``k_proj`` and
    ``v_proj``, turn each token into a query, a key and a value;
    attention, scaled by ``1 / sqrt(D)``, does the rest: yours, not
    PyTorch's. No mask, no dropout, nothing kept between calls. The
    check loads its own weights under these names, calls the module
    with one sequence, a batch and a batch of batches, in both modes,
    and compares outputs and gradients. With a mask, more heads and a
    feed-forward layer behind it, this is a layer of a GPT.
    """

    def __init__(self, embed_dim: int, head_dim: int):
        """Create the three ``nn.Linear`` maps, from E to D features.

        Args:
            embed_dim: ``E``, features of a token.
            head_dim: ``D``, features of a query, key and value.
        """
        super().__init__()
        self.q_proj = nn.Linear(embed_dim, head_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, head_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, head_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Let every token attend to all tokens of its sequence.

        Args:
            x: ``(..., L, E)``.

        Returns:
            ``(..., L, D)``.
        """
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        return attention(q, k, v)  # (..., L, D)
