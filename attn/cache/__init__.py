"""Keys and values of everything read so far, for one layer.

``update`` adds what is new and gives back what the new queries may look at.
``q_offset`` is the place of the first new query among these keys, as every
attention function here takes it::

    key, value, q_offset = cache.update(key, value)
    out = attn.grouped_attention(
        query, key, value, is_causal=True, q_offset=q_offset
    )

Keys are kept as they come: turned by their positions, if the model has RoPE.
``positions`` gives those of the next tokens.
"""

from attn.cache.base import Cache, Seen
from attn.cache.dynamic import DynamicCache, SlidingCache
from attn.cache.paged import PagedCache, PagePool
from attn.cache.static import StaticCache

__all__ = [
    "Cache",
    "DynamicCache",
    "PagePool",
    "PagedCache",
    "Seen",
    "SlidingCache",
    "StaticCache",
]
