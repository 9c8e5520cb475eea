"""Positions that are added to the embeddings."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attn import arguments, tracing


def position_ids(valid: Tensor) -> Tensor:
    """Count the real tokens of each row, from 0.

    With padding on the left, the first real token still has position 0.

    Args:
        valid: True (or 1) for a real token, ``(..., L)``: Hugging Face's
            ``attention_mask``.

    Returns:
        int64 ``(..., L)``; 0 before the first real token.

    Example:
        >>> attn.position_ids(torch.tensor([[1, 1, 1], [0, 1, 1]]))
        tensor([[0, 1, 2],
                [0, 0, 1]])
    """
    arguments.real("valid", valid)
    return (valid.long().cumsum(-1) - 1).clamp(min=0)


def sinusoidal(
    seq_len: int,
    dim: int,
    base: float = 10000.0,
    device: torch.device | str | None = None,
) -> Tensor:
    """Return the fixed position vectors of the first Transformer.

    Column ``2i`` is ``sin(position / base ** (2i / dim))`` and column
    ``2i + 1`` its cosine. An odd ``dim`` ends with a sine.

    With an even ``dim`` the length of each vector is ``sqrt(dim / 2)``. The
    first Transformer multiplies its token embeddings by ``sqrt(dim)`` before
    it adds these, so that both are of similar length (``embed_scale`` of
    ``TransformerConfig``).

    Args:
        seq_len: positions ``0`` to ``seq_len - 1``.
        dim: size of a vector, ``E``; even or odd.
        base: the longest wavelength is about ``2 * pi * base``.
        device: of the result.

    Returns:
        ``(seq_len, dim)``, float32.

    Raises:
        ValueError: a size is out of range.

    Example:
        >>> attn.sinusoidal(seq_len=2, dim=4)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0100, 0.9999]])

    Source: Vaswani et al. 2017, sections 3.4 and 3.5.
    """
    arguments.count("seq_len", seq_len, 0)
    return SinusoidalPositions(dim, base)(torch.arange(seq_len, device=device))


class SinusoidalPositions(nn.Module):
    """``sinusoidal``, with its ``dim`` and ``base``, for any positions.

    Example:
        >>> positions = attn.SinusoidalPositions(dim=4)
        >>> positions(torch.tensor([0, 1]))
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0100, 0.9999]])
    """

    def __init__(self, dim: int, base: float = 10000.0):
        super().__init__()
        arguments.count("dim", dim)
        arguments.positive("base", base)
        self.dim, self.base = dim, base

    @property
    def arguments(self) -> dict[str, float]:
        """The keywords that make another like it."""
        return {"dim": self.dim, "base": self.base}

    def forward(self, positions: Tensor) -> Tensor:
        """Map position ids ``(..., L)`` to ``(..., L, E)``, float32."""
        arguments.real("positions", positions)
        column = torch.arange(self.dim, device=positions.device)
        wavelength = self.base ** ((column - column % 2).double() / self.dim)
        angle = positions.double()[..., None] / wavelength  # (..., L, E)
        waves = torch.where(column % 2 == 0, angle.sin(), angle.cos())
        return waves.float()  # rounded once, at the end

    def extra_repr(self) -> str:
        return f"{self.dim}, base={self.base}"


class LearnedPositions(nn.Module):
    """One trained vector for each position, and none beyond the last.

    Args:
        max_len, dim: number of positions and size of a vector, ``E``.

    Example:
        >>> table = attn.LearnedPositions(max_len=10, dim=4)
        >>> table(torch.tensor([0, 1, 9])).shape
        torch.Size([3, 4])

    Source: Gehring et al. 2017; Radford et al. 2019 (GPT-2).
    """

    def __init__(self, max_len: int, dim: int):
        super().__init__()
        arguments.counts(max_len=max_len, dim=dim)
        self.weight = nn.Parameter(torch.empty(max_len, dim))
        nn.init.normal_(self.weight, std=0.02)

    @property
    def arguments(self) -> dict[str, int]:
        """The keywords that make another, with new vectors."""
        max_len, dim = self.weight.shape
        return {"max_len": max_len, "dim": dim}

    def forward(self, positions: Tensor) -> Tensor:
        """Map position ids ``(..., L)`` to ``(..., L, E)``.

        Raises:
            ValueError: a position is negative or beyond the last. Only
                checked on the CPU: a GPU would have to wait for it, and a
                compiled graph would break (on a CPU, it raises IndexError).
        """
        arguments.real("positions", positions)
        if positions.is_floating_point():
            raise TypeError(
                f"positions must be integers; got {positions.dtype}"
            )
        on_cpu = positions.device.type == "cpu" and positions.numel()
        if on_cpu and tracing.has_values(positions):
            low, high = (int(x) for x in positions.aminmax())
            if low < 0 or high >= len(self.weight):
                raise ValueError(
                    f"positions must be 0 to {len(self.weight) - 1}, one for "
                    f"each learned vector; got {low} to {high}"
                )
        return nn.functional.embedding(positions, self.weight)

    def extra_repr(self) -> str:
        return "{}, {}".format(*self.weight.shape)
