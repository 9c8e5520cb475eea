"""Chapter 05: grouped-query attention."""

from __future__ import annotations

from attn.exercises import ch05_grouped_attention, ch05_repeat_kv

repeat_kv = ch05_repeat_kv.exercise
grouped_attention = ch05_grouped_attention.exercise
