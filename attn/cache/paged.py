"""A cache in pages: memory only for the tokens that are stored.

A pool of pages serves many sequences of different lengths, each with a table
of its pages. Sequences that begin alike share pages; a shared page is copied
before it is written to.

Source: Kwon et al. 2023, "Efficient Memory Management for Large Language
Model Serving with PagedAttention".
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import chain
from typing import Self

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.cache import ragged, validation
from attn.cache.allocator import PageAllocator
from attn.cache.base import Cache, CacheView


class PagePool(PageAllocator):
    """Pages of keys and values, with the number of sequences on each.

    Args:
        num_pages, page_size: pages in all, and tokens in a page.
        num_kv_heads: ``Hkv``.
        head_dim, value_dim: ``D`` and ``Dv``, which is ``D`` when None.
        dtype, device: of keys and values.

    Example:
        >>> pool = attn.PagePool(4, page_size=2, num_kv_heads=2, head_dim=8)
        >>> cache = attn.PagedCache(pool, batch=1)
        >>> x = torch.randn(1, 2, 3, 8)
        >>> view = cache.update(x, x)  # 3 tokens fill 2 pages
        >>> pool.ref_counts
        [1, 1, 0, 0]
    """

    def __init__(
        self,
        num_pages: int,
        page_size: int,
        num_kv_heads: int,
        head_dim: int,
        value_dim: int | None = None,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ):
        super().__init__(num_pages, page_size)
        value_dim = head_dim if value_dim is None else value_dim
        arguments.counts(num_kv_heads=num_kv_heads)
        arguments.counts(head_dim=head_dim, value_dim=value_dim)
        page = (num_pages, num_kv_heads, page_size)
        self.key = torch.empty(*page, head_dim, dtype=dtype, device=device)
        self.value = torch.empty(*page, value_dim, dtype=dtype, device=device)

    def another_layer(self) -> Self:
        """Return memory for the same pages, as another layer needs it.

        Both pools have one list of free pages: page 7 of a sequence is page
        7 in every layer.
        """
        other = copy.copy(self)
        other.key = torch.empty_like(self.key)
        other.value = torch.empty_like(self.value)
        return other

    def copy(self, page: int) -> int:
        """Exchange a reference to a page for a copy of it."""
        own = self.allocate()
        self.key[own], self.value[own] = self.key[page], self.value[page]
        self.release(page)
        return own


class PagedCache(Cache):
    """Sequences of different lengths in the pages of a pool.

    ``seq_len`` has an entry for each row, ``(B,)``.

    Args:
        pool: of the pages; several caches may share it.
        batch: rows, ``B``.

    Example:
        >>> pool = attn.PagePool(4, page_size=2, num_kv_heads=2, head_dim=8)
        >>> cache = attn.PagedCache(pool, batch=1)
        >>> x = torch.randn(1, 2, 3, 8)
        >>> view = cache.update(x, x)
        >>> other = cache.fork()  # shares the pages of the text so far
        >>> view = other.update(x[:, :, :1], x[:, :, :1])  # copies the last
        >>> cache.block_table.tolist(), other.block_table.tolist()
        ([[0, 1]], [[0, 2]])
    """

    seq_len: Tensor

    def __init__(self, pool: PagePool, batch: int):
        arguments.instance("pool", pool, PagePool, "a PagePool")
        arguments.count("batch", batch, 0)
        self.pool = pool
        self.pages: list[list[int]] = [[] for _ in range(batch)]
        device = pool.key.device
        self.seq_len = torch.zeros(batch, dtype=torch.long, device=device)

    @classmethod
    def at(
        cls,
        pool: PagePool,
        pages: Sequence[Sequence[int]],
        seq_len: Sequence[int],
    ) -> Self:
        """Return a cache over pages that a scheduler has allocated.

        The references remain the scheduler's, which releases them. Each row
        may have pages beyond its tokens, for those of the next update.

        Args:
            pool: of the pages.
            pages: block table of each row, ``B`` lists.
            seq_len: tokens that each row has stored, ``B`` numbers.

        Raises:
            ValueError: a row has fewer pages than its tokens need.
        """
        cache = cls(pool, len(pages))
        for row, length in zip(pages, seq_len, strict=True):
            if pool.pages_for(length) > len(row):
                raise ValueError(
                    f"pages must hold the {length} tokens of each row, "
                    f"{pool.page_size} on a page; got {len(row)} pages"
                )
        cache.pages = [list(row) for row in pages]
        cache.seq_len = torch.tensor(
            list(seq_len), dtype=torch.long, device=pool.key.device
        )
        return cache

    @property
    def nbytes(self) -> int:
        """Return the memory of the pages in use, shared ones once."""
        pages = (self.pool.key, self.pool.value)
        one = sum(x[:1].nbytes for x in pages)
        return one * len(set(chain(*self.pages)))

    @property
    def block_table(self) -> Tensor:
        """Return the pages of each row, int32 ``(B, most)``, padded by -1."""
        most = max(map(len, self.pages), default=0)
        rows = [row + [-1] * (most - len(row)) for row in self.pages]
        table = torch.tensor(rows, dtype=torch.int32)
        return table.reshape(len(rows), most).to(self.seq_len.device)

    def update(
        self, key: Tensor, value: Tensor, lengths: Tensor | None = None
    ) -> CacheView:
        pools = (self.pool.key, self.pool.value)
        stored = [x[:1].expand(len(self.pages), -1, -1, -1) for x in pools]
        validation.new_tokens(key, value, stored)
        validation.no_grad(key, value)
        tracing.require_values("which give its pages", seq_len=self.seq_len)
        counts = [key.shape[2]] * len(self.pages)
        if lengths is not None:
            validation.lengths(lengths, len(self.pages), key.shape[2])
            counts = lengths.tolist()
        self._allocate(counts)
        before = self.seq_len
        for row, count in enumerate(counts):
            self._write(row, key[row, :, :count], value[row, :, :count])
        self.seq_len = before + torch.tensor(counts, device=before.device)
        key, value = map(self._gather, pools)
        return CacheView(key, value, before)

    def valid(self) -> Tensor:
        """Return which keys of the last update are real, bool ``(B, S)``."""
        longest = max(self.seq_len.tolist(), default=0)
        return ragged.real(self.seq_len, longest)

    def fork(self) -> Self:
        return self._share(self.pages, self.seq_len)

    def crop(self, length: int) -> None:
        validation.crop(length, min(self.seq_len.tolist(), default=0))
        keep = self.pool.pages_for(length)
        for row in self.pages:
            while len(row) > keep:
                self.pool.release(row.pop())
        self.seq_len = torch.full_like(self.seq_len, length)

    def reorder(self, rows: Tensor) -> None:
        validation.rows(rows, len(self.pages))
        pages = [self.pages[i] for i in rows.tolist()]
        other = self._share(pages, self.seq_len[rows])
        self.release()
        self.pages, self.seq_len = other.pages, other.seq_len

    def release(self) -> None:
        """Return all pages to the pool."""
        self.crop(0)

    def _share(self, pages: list[list[int]], seq_len: Tensor) -> Self:
        """Return another cache with a reference to each of these pages."""
        other = copy.copy(self)
        other.seq_len = seq_len.clone()
        other.pages = [list(row) for row in pages]
        for page in chain(*pages):
            self.pool.ref_counts[page] += 1
        return other

    def _allocate(self, counts: list[int]) -> None:
        """Take pages for new tokens, all or none, and copy shared ones."""
        size, needed = self.pool.page_size, []
        shared: list[tuple[list[int], int]] = []
        ref_counts = list(self.pool.ref_counts)
        rows = zip(self.pages, self.seq_len.tolist(), counts, strict=True)
        for pages, before, count in rows:
            total = self.pool.pages_for(before + count)
            needed.append(max(0, total - len(pages)))
            at, is_partial = before // size, before % size
            if count and is_partial and ref_counts[pages[at]] > 1:
                ref_counts[pages[at]] -= 1  # the last row need not copy
                shared.append((pages, at))
        total, free = sum(needed) + len(shared), len(self.pool.free_pages)
        if total > free:
            raise ValueError(
                f"key must fit in the {free} free pages of {size} tokens; "
                f"got tokens for {total}"
            )
        for pages, at in shared:
            pages[at] = self.pool.copy(pages[at])
        for pages, count in zip(self.pages, needed, strict=True):
            pages += [self.pool.allocate() for _ in range(count)]

    def _write(self, row: int, key: Tensor, value: Tensor) -> None:
        """Append ``(Hkv, count, D)`` to a row."""
        size, start = self.pool.page_size, int(self.seq_len[row])
        index = range(start, start + key.shape[1])
        pages = [self.pages[row][i // size] for i in index]
        slots = [i % size for i in index]
        self.pool.key[pages, :, slots] = key.transpose(0, 1)
        self.pool.value[pages, :, slots] = value.transpose(0, 1)

    def _gather(self, pool: Tensor) -> Tensor:
        """Return all rows, ``(B, Hkv, S, D)``; unwritten slots are zeros."""
        pages = pool[self.block_table.clamp(min=0).long()]
        x = pages.transpose(1, 2).flatten(2, 3)  # (B, Hkv, most * size, D)
        valid = self.valid()[:, None, :, None]  # (B, 1, S, 1)
        return x[:, :, : valid.shape[2]].masked_fill(~valid, 0.0)
