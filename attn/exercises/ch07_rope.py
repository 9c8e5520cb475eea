"""Chapter 07: rotary positions."""

from __future__ import annotations

from attn.exercises import (
    ch07_apply_rope,
    ch07_apply_rope_interleaved,
    ch07_frequencies,
    ch07_llama3_scaling,
    ch07_permute_weights,
    ch07_yarn_scaling,
)

frequencies = ch07_frequencies.exercise
apply_rope = ch07_apply_rope.exercise
apply_rope_interleaved = ch07_apply_rope_interleaved.exercise
permute_weights = ch07_permute_weights.exercise
llama3_scaling = ch07_llama3_scaling.exercise
yarn_scaling = ch07_yarn_scaling.exercise
