"""Chapter 12: FlashAttention as a GPU kernel."""

from __future__ import annotations

from attn.exercises import (
    ch12_forward_mistakes,
    ch12_ranges,
    ch12_softmax,
)

row_softmax_kernel = ch12_softmax.exercise
attention_forward_kernel = ch12_forward_mistakes.exercise
causal_ranges = ch12_ranges.exercise
