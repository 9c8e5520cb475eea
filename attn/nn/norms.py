"""Normalisation: over the features of one token, or over the batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


class LayerNorm(nn.Module):
    """Give every token mean 0 and variance 1, then scale and shift.

    Args:
        dim: size of the last axis, ``E``.
        eps: added to the variance.
        bias: learn a shift too.

    Source: Ba et al. 2016; ``torch.nn.LayerNorm``.
    """

    def __init__(self, dim: int, eps: float = 1e-5, bias: bool = True):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """``(..., E)`` to the same shape and dtype, computed in float32."""
        wide = _wide(x)
        centred = wide - wide.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)  # over E, not E-1
        out = centred * torch.rsqrt(variance + self.eps) * self.weight
        return (out if self.bias is None else out + self.bias).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


class RMSNorm(nn.Module):
    """Give every token root mean square 1, then scale; the mean stays.

    Args:
        dim: size of the last axis, ``E``.
        eps: added to the mean square.

    Source: Zhang and Sennrich 2019; ``torch.nn.RMSNorm``.
    """

    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """``(..., E)`` to the same shape and dtype, computed in float32."""
        wide = _wide(x)
        mean_square = wide.square().mean(-1, keepdim=True)
        out = wide * torch.rsqrt(mean_square + self.eps)
        return (out * self.weight).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


class BatchNorm(nn.Module):
    """Give every feature mean 0 and variance 1 over the batch.

    What a token becomes depends on its neighbours in the batch, and
    evaluation uses running averages from training: both are why
    Transformers do not use it.

    Args:
        dim: number of features, ``C``.
        eps: added to the variance.
        momentum: the weight of the newest batch in the running averages.

    Source: Ioffe and Szegedy 2015; ``torch.nn.BatchNorm1d``.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, dim: int, eps: float = 1e-5, momentum: float = 0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``(N, C)`` or ``(N, C, L)``; the same shape comes back.

        Raises:
            ValueError: another shape, or one value a feature in training.
        """
        if x.dim() not in (2, 3) or x.shape[1] != len(self.weight):
            raise ValueError(
                f"x has shape {tuple(x.shape)}: BatchNorm needs (N, C) or "
                f"(N, C, L) with C = {len(self.weight)}"
            )
        axes = [axis for axis in range(x.dim()) if axis != 1]
        shape = [-1] + [1] * (x.dim() - 2)
        wide = _wide(x)
        if self.training:
            count = x.numel() // x.shape[1]
            if count < 2:
                raise ValueError(
                    f"x has {count} values a feature: BatchNorm needs two or "
                    "more to train"
                )
            mean = wide.mean(axes)
            variance = wide.var(axes, correction=0)
            self._remember(mean, variance * count / (count - 1))
        else:
            mean, variance = self.running_mean, self.running_var
        scale = self.weight * torch.rsqrt(variance + self.eps)
        out = (wide - mean.view(shape)) * scale.view(shape)
        return (out + self.bias.view(shape)).to(x.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running averages; torch keeps the unbiased variance."""
        self.running_mean.lerp_(mean.to(self.running_mean), self.momentum)
        self.running_var.lerp_(variance.to(self.running_var), self.momentum)
        self.num_batches_tracked += 1

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}, momentum={self.momentum}"
