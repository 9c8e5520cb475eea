"""Masks as predicates over positions: the type, the patterns, the sums."""

from attn.masks.mask import Mask, Term
from attn.masks.patterns import (
    causal,
    chunked,
    documents,
    padding,
    prefix,
    sliding_window,
    window,
)

__all__ = [
    "Mask",
    "Term",
    "causal",
    "chunked",
    "documents",
    "padding",
    "prefix",
    "sliding_window",
    "window",
]
