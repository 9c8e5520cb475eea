"""Attention as functions, from one loop to the whole contract.

``attention`` holds the specification, ``simple`` its readable versions,
``tiled`` the one-pass algorithm; ``inputs`` validates a call once.
"""

from attn.functional.attention import (
    AttentionWeights,
    attention_weights,
    grouped_attention,
    scaled_dot_product_attention,
)
from attn.functional.heads import (
    merge_heads,
    pool_heads,
    repeat_kv,
    split_heads,
)
from attn.functional.simple import attention_loops, simple_attention, softmax
from attn.functional.tiled import merge_states, online_softmax, tiled_attention

__all__ = [
    "AttentionWeights",
    "attention_loops",
    "attention_weights",
    "grouped_attention",
    "merge_heads",
    "merge_states",
    "online_softmax",
    "pool_heads",
    "repeat_kv",
    "scaled_dot_product_attention",
    "simple_attention",
    "softmax",
    "split_heads",
    "tiled_attention",
]
