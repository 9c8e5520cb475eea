"""Positions: added to the embeddings or the scores, or rotated in.

Attention alone sees a set. ``sinusoidal`` and ``LearnedPositions`` are added
to the embeddings, ``alibi_bias`` to the scores, and RoPE rotates queries and
keys so that their product depends on the distance between them.
"""

from attn.positions.absolute import (
    LearnedPositions,
    SinusoidalPositions,
    position_ids,
    sinusoidal,
)
from attn.positions.alibi import alibi_bias, alibi_score, alibi_slopes
from attn.positions.frequencies import rope_frequencies
from attn.positions.layout import convert_pairing
from attn.positions.rope import apply_rope, rope_tables
from attn.positions.rope_modules import NoRope, Rope
from attn.positions.rope_scaling import RopeFrequencies

__all__ = [
    "sinusoidal",
    "SinusoidalPositions",
    "LearnedPositions",
    "position_ids",
    "alibi_slopes",
    "alibi_bias",
    "alibi_score",
    "rope_frequencies",
    "RopeFrequencies",
    "rope_tables",
    "apply_rope",
    "Rope",
    "NoRope",
    "convert_pairing",
]
