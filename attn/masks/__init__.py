"""Masks as predicates over positions: the type, the patterns, the probe."""

from attn.masks import patterns
from attn.masks.mask import Mask, Term
from attn.masks.patterns import *  # noqa: F403
from attn.masks.probe import dependency_mask

__all__ = ["Mask", "Term", "dependency_mask"]
__all__ += patterns.__all__
