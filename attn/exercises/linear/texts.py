"""Draw the tokens of a text, and its decays, for this chapter's cases."""

import torch
from torch import Tensor

from attn.exercises.draw import Draw

STRONG = 25.0
"""Factor on the logs of decays: sums of a few tokens go beyond -90."""


def tokens(
    g: Draw, L: int, D: int, Dv: int, lead: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw query, key and value."""
    shapes = (L, D), (L, D), (L, Dv)
    query, key, value = (g.randn(*lead, *shape) for shape in shapes)
    return query, key, value


def lengthened(x: Tensor) -> Tensor:
    """Give vectors shorter than 3 the length 3, and leave others.

    Divided by its length, a short vector depends on what is added to that.
    """
    return x / (x.norm(dim=-1, keepdim=True) / 3).clamp(max=1)


def heads_in_front(*inputs: Tensor | None) -> list[Tensor | None]:
    """Give the tensors of one head the axis that the library needs."""
    one_head = inputs[0] is not None and inputs[0].dim() == 2
    return [x[None] if one_head and x is not None else x for x in inputs]


def decays(g: Draw, *shape: int, strength: float = 0.5) -> Tensor:
    """Draw logs of decays, from 0 down to ``-strength`` and beyond."""
    return -strength * (0.2 + torch.rand(shape, generator=g))


def betas(g: Draw, *shape: int, most: float = 1.0) -> Tensor:
    """Draw how much is written, from nearly 0 to ``most``."""
    return most * (0.1 + 0.9 * torch.rand(shape, generator=g))
