"""Chapter 02: scaled dot-product attention.

Each exercise stands in a file of its own; this one puts them in order.
"""

from __future__ import annotations

from attn.exercises import (
    ch02_attention,
    ch02_loops,
    ch02_module,
    ch02_softmax,
    ch02_variance,
)

softmax = ch02_softmax.exercise
attention_loops = ch02_loops.exercise
attention = ch02_attention.exercise
logit_variance = ch02_variance.exercise
SelfAttention = ch02_module.exercise
