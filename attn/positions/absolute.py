"""Positions that are added to the embeddings."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def position_ids(valid: Tensor) -> Tensor:
    """The position of each token among the real tokens of its row.

    With padding on the left, the first real token still stands at 0.

    Args:
        valid: True (or 1) for a real token, ``(..., L)``: Hugging Face's
            ``attention_mask``.

    Returns:
        int64 ``(..., L)``; 0 before the first real token.
    """
    return (valid.long().cumsum(-1) - 1).clamp(min=0)


def sinusoidal(
    seq_len: int,
    dim: int,
    base: float = 10000.0,
    device: torch.device | str | None = None,
) -> Tensor:
    """The fixed position vectors of the first Transformer.

    Column ``2i`` is ``sin(position / base ** (2i / dim))`` and column
    ``2i + 1`` its cosine. An odd ``dim`` ends with a sine.

    Args:
        seq_len: positions ``0`` to ``seq_len - 1``.
        dim: size of a vector, ``E``; even or odd.
        base: the longest wavelength is about ``2 * pi * base``.
        device: where the result is made.

    Returns:
        ``(seq_len, dim)``, float32.

    Raises:
        ValueError: a size is out of range.

    Source: Vaswani et al. 2017, section 3.5.
    """
    if seq_len < 0:
        raise ValueError(f"seq_len is {seq_len}: it needs 0 or more")
    return _waves(torch.arange(seq_len, device=device), dim, base)


def _waves(positions: Tensor, dim: int, base: float) -> Tensor:
    """``(...)`` positions to ``(..., dim)``, rounded once, at the end."""
    if dim < 1:
        raise ValueError(f"dim is {dim}: it needs at least 1")
    column = torch.arange(dim, device=positions.device)
    wavelength = base ** ((column - column % 2).double() / dim)
    angle = positions.double()[..., None] / wavelength  # (..., dim)
    return torch.where(column % 2 == 0, angle.sin(), angle.cos()).float()


class SinusoidalPositions(nn.Module):
    """``sinusoidal`` for any positions; nothing to learn or to store.

    Args:
        dim: size of a vector, ``E``.
        base: as in ``sinusoidal``.
    """

    def __init__(self, dim: int, base: float = 10000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, positions: Tensor) -> Tensor:
        """Position ids ``(..., L)`` to vectors ``(..., L, E)``, float32."""
        return _waves(positions, self.dim, self.base)


class LearnedPositions(nn.Module):
    """One trained vector for each position; there is none beyond the last.

    Args:
        max_len: number of positions.
        dim: size of a vector, ``E``.

    Source: Gehring et al. 2017; Radford et al. 2019 (GPT-2).
    """

    def __init__(self, max_len: int, dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_len, dim))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, positions: Tensor) -> Tensor:
        """Look up position ids.

        Args:
            positions: integers, ``(..., L)``.

        Returns:
            ``(..., L, E)``.

        Raises:
            ValueError: a position is negative or beyond the last (on the
                CPU; a GPU has no time to look).
        """
        if positions.device.type == "cpu" and positions.numel():
            low, high = (int(x) for x in positions.aminmax())
            if low < 0 or high >= len(self.weight):
                raise ValueError(
                    f"positions run from {low} to {high}: LearnedPositions "
                    f"has vectors for 0 to {len(self.weight) - 1}"
                )
        return nn.functional.embedding(positions, self.weight)

    def extra_repr(self) -> str:
        return "{}, {}".format(*self.weight.shape)
