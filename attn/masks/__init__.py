"""Masks as predicates over positions: the type, patterns, choices, a probe."""

from attn.masks import patterns
from attn.masks.choice import compressed, top_k, top_k_blocks
from attn.masks.mask import Mask, Term
from attn.masks.patterns import *  # noqa: F403
from attn.masks.probe import dependency_mask

__all__ = [
    "Mask",
    *patterns.__all__,
    "compressed",
    "top_k",
    "top_k_blocks",
    "dependency_mask",
    "Term",
]
