"""The feed-forward half of a block, applied to each token alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from attn import arguments
from attn.nn import validation
from attn.nn.norms import LayerFactory

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """Two linear maps with an activation between: widen, bend, narrow.

    Args:
        embed_dim: ``E``.
        hidden_dim: size of the hidden layer; ``4 * E`` when None.
        activation: ``"gelu"`` (exact: BERT), ``"gelu_tanh"`` (GPT-2),
            ``"relu"`` (the first Transformer) or ``"silu"``.
        bias: of both projections.
        dropout: of the hidden features, in training.

    Example:
        >>> layer = attn.FeedForward(embed_dim=8)
        >>> layer(torch.randn(2, 5, 8)).shape
        torch.Size([2, 5, 8])
        >>> sum(x.numel() for x in layer.parameters())  # 8 * 32 * 2 + 32 + 8
        552

    Source: Vaswani et al. 2017, section 3.3; Hendrycks and Gimpel 2016.
    """

    @arguments.named()
    def __init__(
        self,
        embed_dim: int,
        hidden_dim: int | None = None,
        *,
        activation: str = "gelu",
        bias: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__()
        arguments.count("embed_dim", embed_dim)
        hidden_dim = 4 * embed_dim if hidden_dim is None else hidden_dim
        arguments.count("hidden_dim", hidden_dim)
        self.embed_dim = embed_dim
        arguments.choice("activation", activation, ACTIVATIONS)
        self.activation = activation
        self.up_proj = nn.Linear(embed_dim, hidden_dim, bias=bias)
        self.down_proj = nn.Linear(hidden_dim, embed_dim, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(..., E)`` to ``(..., E)``."""
        weight = getattr(self.up_proj, "weight", None)
        validation.features("x", x, self.embed_dim, weight)
        hidden, dropout = self.up_proj(x), self.dropout
        hidden = ACTIVATIONS[self.activation](hidden)
        return self.down_proj(dropout(hidden) if dropout.training else hidden)

    def extra_repr(self) -> str:
        return f"activation={self.activation!r}"


class SwiGLU(nn.Module):
    """A feed-forward in which one projection gates another.

    ``down(silu(gate(x)) * up(x))``. With ``"gelu_tanh"`` it is GeGLU
    (Gemma), with ``"relu"`` ReGLU.

    Args:
        hidden_dim: ``gated_hidden_dim(E)`` when None, for as many weights as
            a ``FeedForward``.
        embed_dim, activation, bias, dropout: as in ``FeedForward``.

    Example:
        >>> gated = attn.SwiGLU(embed_dim=48)
        >>> gated(torch.randn(2, 5, 48)).shape
        torch.Size([2, 5, 48])
        >>> plain = attn.FeedForward(embed_dim=48, bias=False)
        >>> sum(x.numel() for x in gated.parameters())
        18432
        >>> sum(x.numel() for x in plain.parameters())
        18432

    Source: Shazeer 2020, "GLU variants improve Transformer".
    """

    @arguments.named()
    def __init__(
        self,
        embed_dim: int,
        hidden_dim: int | None = None,
        *,
        activation: str = "silu",
        bias: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        arguments.count("embed_dim", embed_dim)
        if hidden_dim is None:
            hidden_dim = gated_hidden_dim(embed_dim)
        arguments.count("hidden_dim", hidden_dim)
        self.embed_dim = embed_dim
        arguments.choice("activation", activation, ACTIVATIONS)
        self.activation = activation
        self.gate_proj = nn.Linear(embed_dim, hidden_dim, bias=bias)
        self.up_proj = nn.Linear(embed_dim, hidden_dim, bias=bias)
        self.down_proj = nn.Linear(hidden_dim, embed_dim, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(..., E)`` to ``(..., E)``."""
        weight = getattr(self.up_proj, "weight", None)
        validation.features("x", x, self.embed_dim, weight)
        gate, dropout = self.gate_proj(x), self.dropout
        hidden = ACTIVATIONS[self.activation](gate) * self.up_proj(x)
        return self.down_proj(dropout(hidden) if dropout.training else hidden)

    def extra_repr(self) -> str:
        return f"activation={self.activation!r}"


#: The gated feed-forwards by name, with the activation of the gate.
GATED = {
    "swiglu": "silu",
    "geglu": "gelu",
    "geglu_tanh": "gelu_tanh",
    "reglu": "relu",
}
FEED_FORWARDS = (*ACTIVATIONS, *GATED, "none")


def feed_forward_factory(
    feed_forward: str | LayerFactory,
    hidden_dim: int | None,
    ffn_bias: bool | None,
    bias: bool = True,
) -> LayerFactory | None:
    """Return what makes the feed-forward of a block; None for ``"none"``."""
    options: dict[str, Any] = {
        "hidden_dim": hidden_dim,
        "bias": bias if ffn_bias is None else ffn_bias,
    }
    if isinstance(feed_forward, str) and feed_forward in GATED:
        options["activation"] = GATED[feed_forward]
        return functools.partial(SwiGLU, **options)
    if isinstance(feed_forward, str) and feed_forward in ACTIVATIONS:
        options["activation"] = feed_forward
        return functools.partial(FeedForward, **options)
    if feed_forward != "none" and (
        isinstance(feed_forward, str) or not callable(feed_forward)
    ):
        raise ValueError(
            f"feed_forward must be one of {FEED_FORWARDS}, or a class; got "
            f"{feed_forward!r}"
        )
    why = f"with a feed_forward of {feed_forward!r}"
    arguments.absent(why, hidden_dim=hidden_dim, ffn_bias=ffn_bias)
    return None if isinstance(feed_forward, str) else feed_forward


def gated_hidden_dim(embed_dim: int, multiple_of: int = 1) -> int:
    """Return the hidden size that gives three matrices the weights of two.

    ``FeedForward`` has ``2 * E * 4E`` weights, a gated one ``3 * E`` times
    its hidden size: equal at ``8E / 3``. The result is that, rounded up to
    ``multiple_of``: Llama 2 uses 256 (``4096`` gives ``11008``).

    Example:
        >>> attn.nn.gated_hidden_dim(4096, multiple_of=256)
        11008
    """
    arguments.count("multiple_of", multiple_of)
    return -(-(8 * embed_dim // 3) // multiple_of) * multiple_of
