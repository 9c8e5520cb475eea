"""A cache in pages: memory for the tokens that are there, and no more.

A pool of pages serves many sequences of different lengths, each with a table
of the pages that hold it. Sequences that begin alike share pages; a page that
is shared is copied before it is written to.

Source: Kwon et al. 2023, "Efficient Memory Management for Large Language
Model Serving with PagedAttention".
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from attn.cache.base import (
    Cache,
    Seen,
    check_fit,
    check_no_grad,
    check_pair,
    check_rows,
)

__all__ = ["PagePool", "PagedCache"]


class PagePool:
    """Pages of keys and values, and who uses them.

    Args:
        num_pages: pages in all.
        page_size: tokens in a page.
        num_kv_heads: ``Hkv``.
        head_dim: ``D``.
        value_dim: ``Dv``; ``D`` when None.
        dtype, device: of keys and values.
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
        for name, size in (("num_pages", num_pages), ("page_size", page_size)):
            if size < 1:
                raise ValueError(f"{name} is {size}: it needs at least 1")
        wide = head_dim if value_dim is None else value_dim
        page = (num_pages, num_kv_heads, page_size)
        self.page_size = page_size
        self.key = torch.empty(*page, head_dim, dtype=dtype, device=device)
        self.value = torch.empty(*page, wide, dtype=dtype, device=device)
        self.users = [0] * num_pages  # how many sequences hold a page
        self.free = list(reversed(range(num_pages)))

    def take(self) -> int:
        """A page that nobody uses."""
        page = self.free.pop()
        self.users[page] = 1
        return page

    def give_back(self, page: int) -> None:
        """One user less."""
        self.users[page] -= 1
        if not self.users[page]:
            self.free.append(page)

    def copy(self, page: int) -> int:
        """A page of one's own with what is in this one, in its place."""
        own = self.take()
        self.key[own], self.value[own] = self.key[page], self.value[page]
        self.give_back(page)
        return own


class PagedCache(Cache):
    """Sequences of different lengths in the pages of a pool.

    ``seq_len`` is one number for each row, ``(B,)``.

    Args:
        pool: where the pages are; other caches may use it too.
        batch: rows, ``B``.
    """

    seq_len: Tensor

    def __init__(self, pool: PagePool, batch: int):
        self.pool = pool
        self.pages: list[list[int]] = [[] for _ in range(batch)]
        self.seq_len = torch.zeros(
            batch, dtype=torch.long, device=pool.key.device
        )

    @property
    def block_table(self) -> Tensor:
        """Pages of each row in order, int32 ``(B, most)``, -1 behind them."""
        most = max(map(len, self.pages), default=0)
        rows = [row + [-1] * (most - len(row)) for row in self.pages]
        table = torch.tensor(rows, dtype=torch.int32)
        return table.reshape(len(rows), most).to(self.seq_len.device)

    def update(
        self, key: Tensor, value: Tensor, lengths: Tensor | None = None
    ) -> Seen:
        """See ``Cache.update``.

        Args:
            key: ``(B, Hkv, L, D)``.
            value: ``(B, Hkv, L, Dv)``.
            lengths: how many of the ``L`` are real in each row, ``(B,)``,
                the first ones; all when None.

        Returns:
            Everything, as ``(B, Hkv, S, D)``, ``S`` that of the longest
            row, zeros behind the shorter ones (``valid`` says where); and
            ``q_offset``, ``(B,)``.
        """
        check_pair(key, value)
        rows = self.pool.key[:1].expand(len(self.pages), -1, -1, -1)
        check_fit("key", key, rows)
        rows = self.pool.value[:1].expand(len(self.pages), -1, -1, -1)
        check_fit("value", value, rows)
        check_no_grad(key, value)
        new = self._lengths(lengths, key.shape[2])
        self._make_room(new)
        before = self.seq_len
        for row, count in enumerate(new):
            self._write(row, key[row, :, :count], value[row, :, :count])
        self.seq_len = before + torch.tensor(new, device=before.device)
        return Seen(
            self._read(self.pool.key), self._read(self.pool.value), before
        )

    def valid(self) -> Tensor:
        """Which keys of the last ``Seen`` are real, bool ``(B, S)``."""
        most = int(self.seq_len.max()) if len(self.pages) else 0
        place = torch.arange(most, device=self.seq_len.device)
        return place < self.seq_len[:, None]

    def fork(self) -> Self:
        """See ``Cache.fork``: full pages stay shared for good."""
        return self._of(self.pages, self.seq_len)

    def crop(self, length: int) -> None:
        """See ``Cache.crop``; every row must have read that much."""
        shortest = int(self.seq_len.min()) if len(self.pages) else 0
        if not 0 <= length <= shortest:
            raise ValueError(
                f"length is {length}: the shortest row has {shortest} "
                f"tokens, it needs 0 to {shortest}"
            )
        keep = -(-length // self.pool.page_size)
        for row in self.pages:
            while len(row) > keep:
                self.pool.give_back(row.pop())
        self.seq_len = torch.full_like(self.seq_len, length)

    def reorder(self, rows: Tensor) -> None:
        """See ``Cache.reorder``: rows that repeat share pages."""
        check_rows(rows, len(self.pages))
        chosen = [self.pages[i] for i in rows.tolist()]
        other = self._of(chosen, self.seq_len[rows])
        self.release()
        self.pages, self.seq_len = other.pages, other.seq_len

    def release(self) -> None:
        """Give all pages back to the pool."""
        for row in self.pages:
            while row:
                self.pool.give_back(row.pop())
        self.seq_len = torch.zeros_like(self.seq_len)

    def _of(self, pages: list[list[int]], seq_len: Tensor) -> Self:
        """Another cache that uses these pages too."""
        other = object.__new__(type(self))
        other.pool, other.seq_len = self.pool, seq_len.clone()
        other.pages = [list(row) for row in pages]
        for row in pages:
            for page in row:
                self.pool.users[page] += 1
        return other

    def _lengths(self, lengths: Tensor | None, most: int) -> list[int]:
        if lengths is None:
            return [most] * len(self.pages)
        if lengths.shape != (len(self.pages),):
            raise ValueError(
                f"lengths has shape {tuple(lengths.shape)}: it needs "
                f"({len(self.pages)},)"
            )
        new = [int(n) for n in lengths]
        if any(not 0 <= n <= most for n in new):
            raise ValueError(f"lengths is {new}: each needs 0 to {most}")
        return new

    def _make_room(self, new: list[int]) -> None:
        """Pages for new tokens, all or none; shared ones become own."""
        size, need, shared = self.pool.page_size, [], []
        sharers = list(self.pool.users)
        for row, count in enumerate(new):
            there = int(self.seq_len[row])
            pages = self.pages[row]
            need.append(max(-(-(there + count) // size) - len(pages), 0))
            half_full = count and there % size
            if half_full and sharers[pages[-1]] > 1:
                sharers[pages[-1]] -= 1  # the last one need not copy
                shared.append(row)
        wanted = sum(need) + len(shared)
        if wanted > len(self.pool.free):
            raise ValueError(
                f"key needs {wanted} pages of {size} tokens: the pool has "
                f"{len(self.pool.free)} free"
            )
        for row in shared:
            self.pages[row][-1] = self.pool.copy(self.pages[row][-1])
        for row, count in enumerate(need):
            self.pages[row] += [self.pool.take() for _ in range(count)]

    def _write(self, row: int, key: Tensor, value: Tensor) -> None:
        """``(Hkv, count, D)`` behind what the row has."""
        size, at = self.pool.page_size, int(self.seq_len[row])
        places = range(at, at + key.shape[1])
        pages = [self.pages[row][place // size] for place in places]
        slots = [place % size for place in places]
        self.pool.key[pages, :, slots] = key.transpose(0, 1)
        self.pool.value[pages, :, slots] = value.transpose(0, 1)

    def _read(self, pool: Tensor) -> Tensor:
        """All rows, ``(B, Hkv, S, D)``; unwritten slots as zeros."""
        pages = pool[self.block_table.clamp(min=0).long()]
        x = pages.transpose(1, 2).flatten(2, 3)  # (B, Hkv, most * size, D)
        valid = self.valid()  # (B, S)
        x = x[:, :, : valid.shape[1]]
        return x.masked_fill(~valid[:, None, :, None], 0.0)
