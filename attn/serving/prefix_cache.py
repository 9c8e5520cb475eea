"""Pages that outlive their request, found again by the tokens they hold.

Source: Zheng et al. 2024, "SGLang: Efficient Execution of Structured
Language Model Programs", section 3 (RadixAttention).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from attn import arguments
from attn.cache import PageAllocator
from attn.serving.request import as_ids


class Match(NamedTuple):
    """The longest stored prefix of a text.

    Example:
        >>> attn.serving.Match(pages=[4, 2], length=32)
        Match(pages=[4, 2], length=32)
    """

    pages: list[int]
    length: int  # tokens in these pages


@dataclass(eq=False)
class _Node:
    """A page, by the tokens on it and the pages before it."""

    parent: _Node | None
    tokens: tuple[int, ...]
    page: int
    last_used: int = 0
    children: dict[tuple[int, ...], _Node] = field(default_factory=dict)


class PrefixCache:
    """A tree of full pages: a path from the root is the start of a text.

    The keys and values of a token depend on every token before it and, as
    the model is causal, on none after it. Therefore a page is found only by
    way of the pages before it, and equal tokens after different beginnings
    are different pages. All else that makes keys, such as an adapter, must
    be the same. A page that is not full is never stored: its sequence still
    writes to it.

    The cache has one reference to each page. ``evict`` drops pages that
    nothing else refers to, the least recently used first, and leaves before
    their parents.

    Args:
        pool: of the pages, an ``attn.PageAllocator`` or ``attn.PagePool``.

    Example:
        >>> pool = attn.PageAllocator(num_pages=8, page_size=2)
        >>> cache = attn.serving.PrefixCache(pool)
        >>> pages = [pool.allocate() for _ in range(3)]
        >>> cache.insert([1, 2, 3, 4, 5], pages)  # the last is not full
        >>> cache.match_prefix([1, 2, 3, 9, 9])
        Match(pages=[0], length=2)
        >>> cache.match_prefix([1, 2, 3, 4])  # one token is left to read
        Match(pages=[0], length=2)

    Source: SGLang ``RadixCache``; vLLM ``KVCacheManager``, whose hash of a
    block includes that of the block before it.
    """

    def __init__(self, pool: PageAllocator):
        need = "a PageAllocator or a PagePool"
        arguments.instance("pool", pool, PageAllocator, need)
        self.pool = pool
        self._root = _Node(None, (), -1)
        self._clock = 0

    def match_prefix(self, ids: Sequence[int] | Tensor) -> Match:
        """Find the pages that hold the beginning of a text.

        At most ``len(ids) - 1`` tokens are matched: the last one must be
        read, or there are no logits to continue from. The caller takes its
        own references (``pool.retain``) before anything can be evicted.

        Args:
            ids: tokens of the text, ``(L,)``.

        Returns:
            ``pages``, in the order of the text, and ``length``, the number
            of tokens in them.
        """
        ids = as_ids("ids", ids)
        self._clock += 1
        node, pages = self._root, []
        for tokens in self._full_pages(ids[:-1]):
            child = node.children.get(tokens)
            if child is None:
                break
            child.last_used = self._clock
            pages.append(child.page)
            node = child
        return Match(pages, len(pages) * self.pool.page_size)

    def insert(
        self, ids: Sequence[int] | Tensor, pages: Sequence[int]
    ) -> None:
        """Store the full pages of a text, with a reference to each new one.

        Where the tree already has a page for these tokens, it stays, and
        the caller's remains the caller's own.

        Args:
            ids: tokens whose keys and values are stored, ``(L,)``.
            pages: the block table of the text, with all of them.
        """
        ids = as_ids("ids", ids)
        if len(pages) < len(ids) // self.pool.page_size:
            raise ValueError(
                f"pages must cover the {len(ids)} ids, "
                f"{self.pool.page_size} on each; got {len(pages)} pages"
            )
        self._clock += 1
        node = self._root
        # The last page may not be full.
        for tokens, page in zip(self._full_pages(ids), pages, strict=False):
            child = node.children.get(tokens)
            if child is None:
                self.pool.retain(page)
                child = _Node(node, tokens, page)
                node.children[tokens] = child
            child.last_used = self._clock
            node = child

    def evict(self, n: int) -> int:
        """Free up to ``n`` pages; return how many were freed."""
        arguments.count("n", n, 0)
        leaves = [x for x in self._nodes() if self._is_evictable(x)]
        heap = [(x.last_used, i, x) for i, x in enumerate(leaves)]
        heapq.heapify(heap)
        freed = 0
        while heap and freed < n:
            _, order, node = heapq.heappop(heap)
            parent = node.parent
            assert parent is not None
            del parent.children[node.tokens]
            self.pool.release(node.page)
            freed += 1
            if self._is_evictable(parent):
                heapq.heappush(heap, (parent.last_used, order, parent))
        return freed

    @property
    def num_pages(self) -> int:
        """Return the number of stored pages."""
        return sum(1 for _ in self._nodes())

    @property
    def num_evictable(self) -> int:
        """Return the number of pages that ``evict`` could free."""
        kept: set[_Node | None] = set()  # those with a page in use below
        count = 0
        for node in reversed(list(self._nodes())):  # children first
            if node in kept or self.pool.ref_counts[node.page] > 1:
                kept.add(node.parent)
            else:
                count += 1
        return count

    def _full_pages(self, ids: list[int]) -> Iterator[tuple[int, ...]]:
        size = self.pool.page_size
        for start in range(0, len(ids) - size + 1, size):
            yield tuple(ids[start : start + size])

    def _nodes(self) -> Iterator[_Node]:
        """Yield every node, each before its children."""
        todo = list(self._root.children.values())
        while todo:
            node = todo.pop()
            yield node
            todo += node.children.values()

    def _is_evictable(self, node: _Node) -> bool:
        is_leaf = node is not self._root and not node.children
        return is_leaf and self.pool.ref_counts[node.page] == 1
