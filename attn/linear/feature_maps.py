"""Feature maps: a product of features in the place of ``exp(q · k)``."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import arguments

FeatureMap = Callable[[Tensor], Tensor]


def elu_plus_one(x: Tensor) -> Tensor:
    """Return ``elu(x) + 1``: positive, so that weights can be normalised.

    Args:
        x: queries or keys, ``(..., D)``.

    Returns:
        ``(..., D)``.

    Example:
        >>> from attn.linear import elu_plus_one
        >>> elu_plus_one(torch.tensor([-100.0, 0.0, 2.0]))
        tensor([0., 1., 3.])

    Source: Katharopoulos et al. 2020, "Transformers are RNNs", equation 7.
    """
    arguments.tensor("x", x, floating=True)
    return F.elu(x) + 1


def taylor(x: Tensor) -> Tensor:
    """Return features whose product is ``1 + s + s ** 2 / 2``.

    ``s`` is ``q · k / sqrt(D)``, the scaled score; the sum begins the series
    of ``exp(s)``, and is never below 1/2. It needs ``1 + D + D ** 2``
    features, and a state that is ``D`` times as large.

    Args:
        x: queries or keys, ``(..., D)``.

    Returns:
        ``(..., 1 + D + D ** 2)``.

    Example:
        >>> from attn.linear import taylor
        >>> q, k = torch.tensor([1.0, 0.0, 0.0, 0.0]), torch.ones(4)
        >>> taylor(q).shape, taylor(q) @ taylor(k)  # s is 1/2
        (torch.Size([21]), tensor(1.6250))

    Source: Arora et al. 2024, "Simple linear attention language models
    balance the recall-throughput tradeoff" (Based).
    """
    arguments.tensor("x", x, floating=True)
    if not x.dim() or not x.shape[-1]:
        raise ValueError(
            f"x must have features, (..., D); got shape {tuple(x.shape)}"
        )
    x = x * x.shape[-1] ** -0.25
    pairs = (x[..., :, None] * x[..., None, :]).flatten(-2)  # (..., D * D)
    return torch.cat([torch.ones_like(x[..., :1]), x, pairs * 0.5**0.5], -1)


#: The feature maps that a name selects.
FEATURE_MAPS: dict[str, FeatureMap] = {
    "elu": elu_plus_one,
    "relu": F.relu,
    "silu": F.silu,
    "taylor": taylor,
}


def choose(chosen: str | FeatureMap | None) -> FeatureMap | None:
    """Return the function of a name, or what was given."""
    if chosen is None or (callable(chosen) and not isinstance(chosen, str)):
        return chosen
    if isinstance(chosen, str) and chosen in FEATURE_MAPS:
        return FEATURE_MAPS[chosen]
    raise ValueError(
        f"feature_map must be one of {tuple(FEATURE_MAPS)}, a function of "
        f"(..., D), or None; got {chosen!r}"
    )
