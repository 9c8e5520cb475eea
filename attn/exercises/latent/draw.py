"""Sizes and tables that the exercises of latent attention share."""

import torch
from torch import Tensor

from attn.positions import rope_frequencies, rope_tables

SIZES = {  # B, H, L, S, Dn, Dr, R, Dv
    "there is one head": [(1, 1, 4, 6, 6, 4, 5, 7)],
    "the latent is wider than a head": [(2, 3, 5, 7, 6, 4, 14, 5)],
    "the latent is narrower than a head": [(2, 3, 4, 6, 9, 2, 3, 7)],
    "the rope part is wider than the rest": [(1, 2, 5, 6, 3, 8, 6, 5)],
    "B, H and L are equal": [(3, 3, 3, 5, 6, 4, 5, 7)],
    "axes have the same length": [
        (2, 2, 4, 4, 4, 4, 4, 4),
        (1, 2, 4, 4, 4, 2, 4, 4),
    ],
}


def tables(L: int, Dr: int, *, still: bool = False) -> tuple[Tensor, Tensor]:
    """Make interleaved tables of positions 0 to L - 1, or of none."""
    places = torch.zeros(L) if still else torch.arange(L)
    inv_freq = rope_frequencies(Dr, 100.0).inv_freq
    return rope_tables(places, inv_freq, interleaved=True)
