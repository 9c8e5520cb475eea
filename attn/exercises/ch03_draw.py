"""What the cases of chapter 03 are drawn from."""

from __future__ import annotations

import torch
from torch import Generator, Tensor


def between(g: Generator, low: int, high: int) -> int:
    """An integer, both ends included."""
    return int(torch.randint(low, high + 1, (), generator=g))


def some_allowed(g: Generator, *shape: int) -> Tensor:
    """A random bool mask; each row forbids something and allows two keys.

    Args:
        shape: ``(..., S)`` with S at least 3.
    """
    mask = torch.rand(shape, generator=g) < 0.5
    order = torch.rand(shape, generator=g).argsort(-1)
    mask.scatter_(-1, order[..., :2], True)
    mask.scatter_(-1, order[..., 2:3], False)
    return mask


def is_bool(_case: object, out: Tensor) -> bool:
    """A claim about masks: the dtype is bool."""
    return out.dtype == torch.bool
