"""Masks as predicates over positions: the type, the patterns, the sums."""

from attn.masks import patterns
from attn.masks.mask import Mask, Term
from attn.masks.patterns import *  # noqa: F403

__all__ = ["Mask", "Term"]
__all__ += patterns.__all__
