"""Chapter 04: multi-head attention."""

from __future__ import annotations

from attn.exercises import (
    ch04_attention_dropout,
    ch04_merge_heads,
    ch04_module,
    ch04_pack_projections,
    ch04_split_heads,
)

split_heads = ch04_split_heads.exercise
merge_heads = ch04_merge_heads.exercise
MultiHeadAttention = ch04_module.exercise
pack_projections = ch04_pack_projections.exercise
attention_dropout = ch04_attention_dropout.exercise
