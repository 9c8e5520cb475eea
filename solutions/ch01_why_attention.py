"""Solutions of chapter 01. Each signature and docstring is the task."""

import torch
from torch import Tensor


def causal_average(x: Tensor) -> Tensor:
    """Average each token with all the tokens before it.

    Row ``i`` of the result is the mean of rows ``0`` to ``i`` of ``x``,
    so that no row depends on a later token. The check uses two to four
    axes, one token and many, views, float32 and float64, and gradients.
    This is attention with equal weights: most of what follows is
    about better ones.

    Args:
        x: tokens, ``(..., L, E)``.

    Returns:
        ``(..., L, E)``, in the dtype of ``x``.
    """
    count = torch.arange(1, x.shape[-2] + 1, dtype=x.dtype)
    return x.cumsum(-2) / count[:, None]


def gradient_by_distance(states: Tensor, weight: Tensor) -> Tensor:
    """Measure how much of each state reaches the last one.

    A recurrence made ``states``: row ``t`` is
    ``tanh(weight @ states[t - 1] + input[t])``. Entry ``d`` of the
    result is the Frobenius norm (the root of the sum of squares, what
    ``torch.linalg.norm`` gives) of the ``(E, E)`` matrix of derivatives
    of the last state by the state ``d`` steps before it; entry 0 is
    that of the identity. The check varies ``L`` from 1, and ``E``.
    This matrix shows where long-range memory breaks down.

    Args:
        states: ``(L, E)``, first to last.
        weight: of the recurrence, ``(E, E)``.

    Returns:
        ``(L,)``, nearest first, float32 like the inputs.
    """
    L, E = states.shape
    product = torch.eye(E, dtype=states.dtype)
    norms = [product.norm()]
    for t in range(L - 1, 0, -1):
        slope = 1 - states[t] ** 2  # of the tanh, (E,)
        product = product @ (slope[:, None] * weight)  # (E, E)
        norms.append(product.norm())
    return torch.stack(norms)


def kernel_regression(
    query: Tensor, key: Tensor, value: Tensor, bandwidth: float
) -> Tensor:
    """Guess a value at each query from the values of the keys near it.

    With ``r`` the distance of key ``j`` from the query, value ``j`` has
    the weight ``exp(-(r**2) / (2 * bandwidth**2))``; the result is the
    mean under these weights. PyTorch's softmax may be used, not its
    attention. The check tries one key, small and large bandwidths,
    queries far from every key (``exp`` alone gives 0 / 0 there) or
    exactly at one, and gradients. Only "near" separates this from
    attention.

    Args:
        query: ``(L, D)``.
        key: ``(S, D)``.
        value: ``(S, Dv)``.
        bandwidth: above 0.

    Returns:
        ``(L, Dv)``, float32 like the inputs.
    """
    squares = (query[:, None] - key).square().sum(-1)  # (L, S)
    scores = -squares / (2 * bandwidth**2)
    weights = torch.softmax(scores, -1)
    return weights @ value


def soft_lookup(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    temperature: float = 1.0,
) -> Tensor:
    """Look each query up in a table whose keys never fit exactly.

    The score of a key is its dot product with the query, divided by
    ``temperature``; the softmax over the keys makes weights of the
    scores, and the result is the mean of the values under them. Write
    it yourself: PyTorch's attention is refused. The check uses two to
    four axes, temperatures from 0.01 to 100, large scores, float64,
    views, and gradients. This is attention, except for one number,
    which the next chapter derives.

    Args:
        query: ``(..., L, D)``.
        key: ``(..., S, D)``.
        value: ``(..., S, Dv)``.
        temperature: above 0; low is sharp, high is even.

    Returns:
        ``(..., L, Dv)``, in the dtype of ``value``.
    """
    scores = query @ key.mT / temperature  # (..., L, S)
    weights = torch.softmax(scores, -1)
    return weights @ value
