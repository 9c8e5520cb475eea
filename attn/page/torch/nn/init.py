"""Overwrite parameters: with constants, or at random."""

from __future__ import annotations

from ..creation import _RANDOM
from ..tensor import Tensor, size_of, write


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with a number."""
    write(tensor, tensor.dtype.round([val]) * size_of(tensor.shape))
    return tensor


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Fill with normal numbers."""
    values = [_RANDOM.gauss(mean, std) for _ in range(size_of(tensor.shape))]
    write(tensor, tensor.dtype.round(values))
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Fill with numbers of a range."""
    values = [_RANDOM.uniform(a, b) for _ in range(size_of(tensor.shape))]
    write(tensor, tensor.dtype.round(values))
    return tensor


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fill as Glorot and Bengio do."""
    bound = gain * (6 / sum(tensor.shape[:2])) ** 0.5
    return uniform_(tensor, -bound, bound)
