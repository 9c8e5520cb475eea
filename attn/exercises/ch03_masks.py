"""Chapter 03: masks."""

from __future__ import annotations

from attn.exercises import (
    ch03_apply_mask,
    ch03_combine,
    ch03_document,
    ch03_sliding_window,
)

apply_mask = ch03_apply_mask.exercise
combine = ch03_combine.exercise
sliding_window = ch03_sliding_window.exercise
document = ch03_document.exercise
