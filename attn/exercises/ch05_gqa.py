"""Chapter 05: grouped-query attention."""

from __future__ import annotations

from attn.exercises import (
    ch05_grouped_attention,
    ch05_kv_cache_bytes,
    ch05_module,
    ch05_pool_heads,
)

grouped_attention = ch05_grouped_attention.exercise
GroupedQueryAttention = ch05_module.exercise
kv_cache_bytes = ch05_kv_cache_bytes.exercise
pool_heads = ch05_pool_heads.exercise
