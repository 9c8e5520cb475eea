"""A short causal convolution: each feature sees a few tokens back."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import arguments
from attn.linear.packed import check_packed, each_text

ACTIVATIONS = {None: lambda y: y, "silu": F.silu}


def short_convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    state: Tensor | None = None,
    activation: str | None = "silu",
    cu_seqlens: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Mix each feature with its own values at the tokens just before.

    A rule binds the key and the value of one token. After this convolution a
    token's key also holds the tokens before it, so that a state can bind a
    token to the *next* one.

    Args:
        x: ``(B, L, E)``.
        weight: one filter a feature, ``(E, K)``, that of the newest token
            last, as in a depthwise ``torch.nn.Conv1d``.
        bias: ``(E,)``.
        state: the ``K - 1`` tokens before, ``(B, K - 1, E)``; zeros when
            None.
        activation: ``"silu"``, or None.
        cu_seqlens: starts and end of texts packed into one row, as in
            ``linear_attention``; ``state`` is then ``(N, K - 1, E)``.

    Returns:
        The output ``(B, L, E)``, and the state after the last token.

    Raises:
        ValueError, TypeError: an argument is wrong.

    Example:
        >>> from attn.linear import short_convolution
        >>> x = torch.tensor([[[1.0], [2.0], [4.0]]])  # (B, L, E)
        >>> weight = torch.tensor([[10.0, 1.0]])  # before, own
        >>> y, state = short_convolution(x, weight, activation=None)
        >>> y.flatten(), state.flatten()
        (tensor([ 1., 12., 24.]), tensor([4.]))

    Source: Poli et al. 2023, "Hyena"; Gu and Dao 2023, "Mamba", section 3.4;
    ``causal_conv1d``.
    """
    arguments.tensor("x", x, floating=True)
    if x.dim() != 3:
        raise ValueError(f"x must have shape (B, L, E); got {tuple(x.shape)}")
    B, L, E = x.shape
    given: dict[str, Any] = {"weight": weight, "bias": bias, "state": state}
    for name, other in given.items():
        if other is not None or name == "weight":
            arguments.tensor(name, other, floating=True)
            arguments.same_device(name, other, "x", x)
    if weight.dim() != 2 or len(weight) != E or not weight.shape[1]:
        raise ValueError(
            f"weight must have shape (E, K) = ({E}, K), one filter a feature;"
            f" got {tuple(weight.shape)}"
        )
    arguments.choice("activation", activation, ACTIVATIONS)
    if bias is not None and bias.shape != (E,):
        raise ValueError(
            f"bias must have shape (E,) = ({E},); got {tuple(bias.shape)}"
        )
    before = weight.shape[1] - 1
    shape = (check_packed(cu_seqlens, B, L), before, E)
    if state is None:
        state = x.new_zeros(shape)
    if state.shape != shape:
        raise ValueError(
            f"state must have shape {shape}, the tokens before; got "
            f"{tuple(state.shape)}"
        )

    def convolve(part: slice, state: Tensor) -> tuple[Tensor, Tensor]:
        seen = torch.cat([state.to(x.dtype), x[:, part]], 1)  # (B, K-1+L, E)
        length = seen.shape[1] - before
        y = seen[:, before:] * weight[:, -1]
        for i in range(before):  # few: a convolution costs more to set up
            y = y + seen[:, i : i + length] * weight[:, i]
        return y if bias is None else y + bias, seen[:, length:]

    y, last = each_text(convolve, cu_seqlens, state, axis=1)
    return ACTIVATIONS[activation](y), last
