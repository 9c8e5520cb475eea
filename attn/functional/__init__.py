"""Attention as functions, from one loop to the whole contract.

``attention`` holds the specification, ``simple`` its readable versions,
``tiled`` the one-pass algorithm; ``indexer`` scores keys to choose among
them; ``inputs`` validates a call once.
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
from attn.functional.indexer import index_scores, indexer_loss
from attn.functional.simple import attention_loops, simple_attention, softmax
from attn.functional.tiled import merge_states, online_softmax, tiled_attention

__all__ = [
    "softmax",
    "attention_loops",
    "simple_attention",
    "scaled_dot_product_attention",
    "attention_weights",
    "AttentionWeights",
    "grouped_attention",
    "tiled_attention",
    "online_softmax",
    "merge_states",
    "split_heads",
    "merge_heads",
    "repeat_kv",
    "pool_heads",
    "index_scores",
    "indexer_loss",
]
