"""Keys and values of all tokens read so far, for one layer.

``update`` adds new ones and returns those that the new queries may attend
to. ``q_offset`` is the index of the first new query among these keys, as
every attention function here takes it::

    key, value, q_offset = cache.update(key, value)
    out = attn.grouped_attention(
        query, key, value, is_causal=True, q_offset=q_offset
    )

Keys are stored as they come: rotated, if the model has RoPE. ``positions``
returns the positions of the next tokens.
"""

from attn.cache.allocator import PageAllocator
from attn.cache.base import Cache, CacheView
from attn.cache.dynamic import DynamicCache, SlidingCache
from attn.cache.latent import LatentCache
from attn.cache.paged import PagedCache, PagePool
from attn.cache.quantized import QuantizedCache
from attn.cache.state import StateCache, StateSnapshot
from attn.cache.static import StaticCache

__all__ = [
    "DynamicCache",
    "SlidingCache",
    "StaticCache",
    "QuantizedCache",
    "PagedCache",
    "PagePool",
    "PageAllocator",
    "LatentCache",
    "StateCache",
    "StateSnapshot",
    "Cache",
    "CacheView",
]
