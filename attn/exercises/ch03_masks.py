"""Chapter 03: masks."""

from __future__ import annotations

from attn.exercises import (
    ch03_apply_mask,
    ch03_combine,
)

apply_mask = ch03_apply_mask.exercise
combine = ch03_combine.exercise
