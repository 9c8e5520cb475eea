"""Chapter 08: the contract of scaled_dot_product_attention."""

from __future__ import annotations

from attn.exercises import (
    ch08_attention_mistakes,
    ch08_causal_lower_right,
    ch08_sinks,
    ch08_softcap,
)

scaled_dot_product_attention = ch08_attention_mistakes.exercise
causal_lower_right = ch08_causal_lower_right.exercise
softcap = ch08_softcap.exercise
sinks = ch08_sinks.exercise
