"""Where a token stands: added to it, added to the scores, or turned in.

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
from attn.positions.frequencies import RopeFrequencies, rope_frequencies
from attn.positions.pairing import convert_pairing
from attn.positions.rope import NoRope, Rope, apply_rope, rope_tables

__all__ = [
    "LearnedPositions",
    "NoRope",
    "Rope",
    "RopeFrequencies",
    "SinusoidalPositions",
    "alibi_bias",
    "alibi_score",
    "alibi_slopes",
    "apply_rope",
    "convert_pairing",
    "position_ids",
    "rope_frequencies",
    "rope_tables",
    "sinusoidal",
]
