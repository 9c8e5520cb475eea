"""Normalisation: over the features of one token, or over the batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from attn import arguments
from attn.nn import validation

#: Makes a norm or a feed-forward for a size, such as a class.
LayerFactory = Callable[[int], nn.Module]


def _alike(x: Tensor, weight: Tensor) -> bool:
    """Return whether PyTorch's function takes both, but for their shapes."""
    is_tensor = isinstance(x, Tensor)
    return is_tensor and x.dtype == weight.dtype and x.device == weight.device


def _check(x: Tensor, weight: Tensor) -> None:
    """Require a float tensor with a feature for each weight."""
    validation.features("x", x, len(weight))
    arguments.same_device("x", x, "the module", weight)


def _upcast(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


class LayerNorm(nn.Module):
    """Give every token mean 0 and variance 1, then scale and shift.

    Args:
        dim: size of the last axis, ``E``.
        eps: added to the variance.
        bias: learn a shift too.

    Example:
        >>> norm = attn.LayerNorm(2)
        >>> x = torch.tensor([[1.0, 3.0], [10.0, 30.0]])  # (B, E)
        >>> norm(x).round()  # along each row
        tensor([[-1.,  1.],
                [-1.,  1.]], grad_fn=<RoundBackward0>)

    Source: Ba et al. 2016; ``torch.nn.LayerNorm``.
    """

    @arguments.named()
    def __init__(self, dim: int, eps: float = 1e-5, bias: bool = True):
        super().__init__()
        arguments.count("dim", dim)
        arguments.number("eps", eps, 0)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the shape and dtype of ``x``, computed in float32."""
        weight = self.weight
        if not _alike(x, weight):
            _check(x, weight)
            return self.definition(x)
        shape, bias = weight.shape, self.bias
        try:  # a check before it takes a tenth of a call with one token
            return torch.layer_norm(x, shape, weight, bias, self.eps)
        except RuntimeError:
            _check(x, weight)
            raise

    def definition(self, x: Tensor) -> Tensor:
        """Return the same as ``forward``, in steps to be read."""
        wide = _upcast(x)
        centred = wide - wide.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)  # over E, not E-1
        out = centred * torch.rsqrt(variance + self.eps) * self.weight
        return (out if self.bias is None else out + self.bias).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


class RMSNorm(nn.Module):
    """Give every token root mean square 1, then scale; the mean stays.

    Args:
        dim, eps: as in ``LayerNorm``, for the mean square.

    Example:
        >>> norm = attn.RMSNorm(2)
        >>> norm(torch.tensor([[3.0, 3.0], [-7.0, 7.0]])).round()
        tensor([[ 1.,  1.],
                [-1.,  1.]], grad_fn=<RoundBackward0>)

    Source: Zhang and Sennrich 2019; ``torch.nn.RMSNorm``.
    """

    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        arguments.count("dim", dim)
        arguments.number("eps", eps, 0)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Return the shape and dtype of ``x``, computed in float32."""
        weight = self.weight
        if not _alike(x, weight):
            _check(x, weight)
            return self.definition(x)
        try:
            return torch.rms_norm(x, weight.shape, weight, self.eps)
        except RuntimeError:
            _check(x, weight)
            raise

    def definition(self, x: Tensor) -> Tensor:
        """Return the same as ``forward``, in steps to be read."""
        wide = _upcast(x)
        mean_square = wide.square().mean(-1, keepdim=True)
        out = wide * torch.rsqrt(mean_square + self.eps)
        return (out * self.weight).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


class BatchNorm(nn.Module):
    """Give every feature mean 0 and variance 1 over the batch.

    The output for a token depends on the rest of the batch, and evaluation
    uses running averages from training: Transformers avoid both.

    Args:
        dim: number of features, ``C``.
        eps: added to the variance.
        momentum: the weight of the newest batch in the running averages.

    Example:
        >>> norm = attn.BatchNorm(2)
        >>> x = torch.tensor([[1.0, 10.0], [3.0, 30.0]])  # (B, C)
        >>> norm(x).round()  # down each column
        tensor([[-1., -1.],
                [ 1.,  1.]], grad_fn=<RoundBackward0>)

    Source: Ioffe and Szegedy 2015; ``torch.nn.BatchNorm1d``.
    """

    def __init__(self, dim: int, eps: float = 1e-5, momentum: float = 0.1):
        super().__init__()
        arguments.count("dim", dim)
        arguments.number("eps", eps, 0)
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.running_mean = nn.Buffer(torch.zeros(dim))
        self.running_var = nn.Buffer(torch.ones(dim))
        self.num_batches_tracked = nn.Buffer(torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``(N, C)`` or ``(N, C, L)``.

        Raises:
            ValueError: another shape, or one value a feature in training.
        """
        arguments.tensor("x", x, floating=True)
        if x.dim() not in (2, 3) or x.shape[1] != len(self.weight):
            raise ValueError(
                "x must have shape (N, C) or (N, C, L) with C = "
                f"{len(self.weight)}; got {tuple(x.shape)}"
            )
        axes = [axis for axis in range(x.dim()) if axis != 1]
        shape = [-1] + [1] * (x.dim() - 2)
        wide = _upcast(x)
        if self.training:
            count = x.numel() // x.shape[1]
            if count < 2:
                raise ValueError(
                    "x must have two values a feature or more in training; "
                    f"got {count}"
                )
            mean = wide.mean(axes)
            variance = wide.var(axes, correction=0)
            unbiased = variance * count / (count - 1)  # stored, as in torch
            updates = ((self.running_mean, mean), (self.running_var, unbiased))
            for running, new in updates:
                running.lerp_(new.detach().to(running), self.momentum)
            self.num_batches_tracked.add_(1)
        else:
            mean, variance = self.running_mean, self.running_var
        scale = self.weight * torch.rsqrt(variance + self.eps)
        out = (wide - mean.view(shape)) * scale.view(shape)
        return (out + self.bias.view(shape)).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}, momentum={self.momentum}"


#: The norms of a block, by name.
NORMS: dict[str, Callable[..., nn.Module]] = {
    "layer": LayerNorm,
    "rms": RMSNorm,
}


def placed(norm: nn.Module, like: Tensor) -> nn.Module:
    """Move a norm to a weight's device and dtype, unless it is there.

    PyTorch moves no module of fake tensors, not even to where it is.
    """
    own = next(norm.parameters())
    same = (own.device, own.dtype) == (like.device, like.dtype)
    return norm if same else norm.to(like)


def norm_factory(norm: str | LayerFactory, eps: float | None) -> LayerFactory:
    """Return what makes the norms of a block."""
    if isinstance(norm, str) and norm in NORMS:
        return partial(NORMS[norm], **({} if eps is None else {"eps": eps}))
    if isinstance(norm, str) or not callable(norm):
        raise ValueError(
            f"norm must be one of {tuple(NORMS)}, or a class; got {norm!r}"
        )
    if eps is not None:
        raise ValueError(
            "norm_eps must be None with a norm that is no name: bind it, "
            f"functools.partial(…, eps={eps}); got {norm!r}"
        )
    return norm
