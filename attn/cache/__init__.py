"""Keys and values of everything read so far, for one layer."""

from attn.cache.cache import (
    Cache,
    DynamicCache,
    Seen,
    SlidingCache,
    StaticCache,
)
from attn.cache.paged import PagedCache, PagePool

__all__ = [
    "Cache",
    "DynamicCache",
    "PagePool",
    "PagedCache",
    "Seen",
    "SlidingCache",
    "StaticCache",
]
