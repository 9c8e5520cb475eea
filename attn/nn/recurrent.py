"""Recurrence and convolution, the layers that attention replaced.

Each maps ``(B, L, E)`` to ``(B, L, E)``, and no output depends on a later
token: the same as ``MultiHeadAttention(..., is_causal=True)``.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class RNN(nn.Module):
    """Carry one vector from token to token, changed at each.

    Args:
        embed_dim: ``E``, of tokens and of the state.

    Example:
        >>> layer = attn.nn.RNN(embed_dim=8)
        >>> x = torch.randn(1, 5, 8)
        >>> states = layer(x)
        >>> seen = layer(x[:, :3])  # no state sees ahead
        >>> torch.allclose(seen, states[:, :3], atol=1e-5)
        True

    Source: Elman 1990, "Finding structure in time"; ``torch.nn.RNN``.
    """

    mixer: type[nn.RNN | nn.LSTM] = nn.RNN

    def __init__(self, embed_dim: int):
        super().__init__()
        self.layer = self.mixer(embed_dim, embed_dim, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return the state after each token, ``(B, L, E)``."""
        states, _ = self.layer(x)
        return states


class LSTM(RNN):
    """Carry a vector that gates keep, forget and read.

    Args:
        embed_dim: as in ``RNN``.

    Example:
        >>> layer = attn.nn.LSTM(embed_dim=8)
        >>> layer(torch.randn(2, 5, 8)).shape  # the state after each token
        torch.Size([2, 5, 8])

    Source: Hochreiter and Schmidhuber 1997; ``torch.nn.LSTM``.
    """

    mixer = nn.LSTM


class CausalConv1d(nn.Module):
    """Mix each token with those just before it, by one matrix for each.

    Args:
        embed_dim: ``E``.
        kernel_size: tokens that an output sees, its own included.
        dilation: distance between them. A stack with the dilations
            ``1, k, k ** 2, …`` sees ``k ** n`` tokens after ``n`` layers.

    Example:
        >>> layer = attn.nn.CausalConv1d(8, kernel_size=3, dilation=2)
        >>> layer.reach  # tokens before its own
        4
        >>> layer(torch.randn(2, 5, 8)).shape
        torch.Size([2, 5, 8])

    Source: van den Oord et al. 2016, "WaveNet", section 2.1;
    ``torch.nn.Conv1d``.
    """

    def __init__(
        self, embed_dim: int, kernel_size: int = 3, dilation: int = 1
    ):
        super().__init__()
        self.layer = nn.Conv1d(
            embed_dim, embed_dim, kernel_size, dilation=dilation
        )
        self.reach = (kernel_size - 1) * dilation  # tokens before its own

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(B, L, E)``; before the first token are zeros."""
        before = F.pad(x.mT, (self.reach, 0))  # (B, E, reach + L)
        return self.layer(before).mT
