"""Draw lengths and masks for the cases of several chapters."""

from __future__ import annotations

import torch
from torch import Generator, Tensor


def between(g: Generator, low: int, high: int) -> int:
    """Draw an integer, both ends included."""
    return int(torch.randint(low, high + 1, (), generator=g))


def some_allowed(g: Generator, *shape: int) -> Tensor:
    """Draw a bool mask; each row masks some key and allows at least two.

    Args:
        shape: ``(..., S)`` with S at least 3.
    """
    mask = torch.rand(shape, generator=g) < 0.5
    order = torch.rand(shape, generator=g).argsort(-1)
    mask.scatter_(-1, order[..., :2], True)
    mask.scatter_(-1, order[..., 2:3], False)
    return mask
