"""Chapter 11: attention in one pass."""

from __future__ import annotations

from attn.exercises import (
    ch11_merge_states,
    ch11_pass,
    ch11_tiled_backward,
    ch11_tiled_forward,
)

online_softmax = ch11_pass.exercise
merge_states = ch11_merge_states.exercise
tiled_forward = ch11_tiled_forward.exercise
tiled_backward = ch11_tiled_backward.exercise
