"""Free pages, and the number of sequences on each of the others."""

from __future__ import annotations

from attn import arguments


class PageAllocator:
    """Numbered pages, each with its number of references.

    It has no memory of its own: ``PagePool`` adds that of one layer, and a
    scheduler can be simulated without any.

    Args:
        num_pages, page_size: pages in all, and tokens in a page.

    Example:
        >>> pages = attn.PageAllocator(num_pages=3, page_size=16)
        >>> first, second = pages.allocate(), pages.allocate()
        >>> pages.retain(first)  # another sequence reads it, too
        >>> pages.release(first)
        >>> pages.release(second)
        >>> pages.ref_counts, pages.free_pages
        ([1, 0, 0], [2, 1])

    Source: vLLM ``BlockPool`` (``vllm/v1/core/block_pool.py``).
    """

    def __init__(self, num_pages: int, page_size: int):
        arguments.counts(num_pages=num_pages, page_size=page_size)
        self.page_size = page_size
        self.ref_counts = [0] * num_pages
        self.free_pages = list(reversed(range(num_pages)))

    @property
    def num_pages(self) -> int:
        """Return the number of pages, free or not."""
        return len(self.ref_counts)

    def pages_for(self, num_tokens: int) -> int:
        """Return how many pages a sequence of this length fills."""
        return -(-num_tokens // self.page_size)

    def allocate(self) -> int:
        """Return a free page, with one reference.

        Raises:
            ValueError: no page is free.
        """
        if not self.free_pages:
            raise ValueError(
                f"a free page must be left; got 0 of {self.num_pages}: "
                "release those of a sequence that has ended"
            )
        page = self.free_pages.pop()
        self.ref_counts[page] = 1
        return page

    def retain(self, page: int) -> None:
        """Add a reference to a page in use."""
        self._check_in_use(page)
        self.ref_counts[page] += 1

    def release(self, page: int) -> None:
        """Drop one reference; the last one frees the page."""
        self._check_in_use(page)
        self.ref_counts[page] -= 1
        if not self.ref_counts[page]:
            self.free_pages.append(page)

    def _check_in_use(self, page: int) -> None:
        if not self.ref_counts[page]:
            raise ValueError(
                f"page must be in use; got page {page}, which is free: each "
                "reference is released once"
            )
