"""Pages: a shared prefix is found by all that is before it, and read once."""

import random

import pytest
import torch

import attn
from attn.profiling import LiveMemory
from attn.serving import Match, PrefixCache, cascade_attention, paged_attention
from tests.attn.cases import randn


def filled(*texts, size=2, num_pages=16):
    """Return a cache of texts, whose requests have ended."""
    pool = attn.PageAllocator(num_pages, size)
    cache, tables = PrefixCache(pool), []
    for text in texts:
        pages = [pool.allocate() for _ in range(pool.pages_for(len(text)))]
        cache.insert(text, pages)
        for page in pages:
            pool.release(page)
        tables.append(pages)
    return cache, tables


def test_a_page_is_found_only_behind_the_pages_before_it():
    cache, (first, second) = filled([1, 2, 7, 8], [3, 4, 7, 8])
    assert cache.match_prefix([1, 2, 7, 8, 0]) == Match(first, 4)
    assert cache.match_prefix([3, 4, 7, 8, 0]) == Match(second, 4)
    assert cache.match_prefix([7, 8, 0]) == Match([], 0)
    assert cache.match_prefix([1, 2, 3, 4, 7, 8, 0]).length == 2


def test_equal_texts_are_stored_once_and_the_second_keeps_its_pages():
    pool = attn.PageAllocator(4, 2)
    cache = PrefixCache(pool)
    cache.insert([1, 2], [pool.allocate()])
    own = pool.allocate()
    cache.insert([1, 2], [own])
    assert pool.ref_counts == [2, 1, 0, 0] and cache.num_pages == 1


def test_eviction_takes_the_least_recently_used_leaf_that_is_not_in_use():
    cache, (a, b) = filled([1, 2, 3, 4], [5, 6, 7, 8])
    cache.match_prefix([1, 2, 3, 4, 9])  # now b is the older one
    cache.pool.retain(b[0])  # a request reads its first page
    assert cache.num_evictable == 3
    assert cache.evict(1) == 1
    assert cache.match_prefix([5, 6, 7, 8, 9]) == Match(b[:1], 2)
    assert cache.evict(10) == 2, "leaves first, then their parents"
    assert cache.match_prefix([1, 2, 9]) == Match([], 0)
    assert cache.num_pages == 1 and cache.num_evictable == 0


def test_a_page_in_use_keeps_those_before_it():
    cache, (a,) = filled([1, 2, 3, 4, 5, 6])
    cache.pool.retain(a[1])
    assert cache.num_evictable == 1 and cache.evict(9) == 1


def test_the_tree_equals_a_search_through_all_texts():
    """Only full pages are shared, and a token is left to read."""
    r, size = random.Random(0), 2
    texts = [
        [r.randint(0, 1) for _ in range(r.randint(0, 9))] for _ in range(12)
    ]
    cache, _ = filled(*texts, size=size, num_pages=64)
    stored = {
        tuple(text[:end])
        for text in texts
        for end in range(size, len(text) + 1, size)
    }
    for _ in range(200):
        text = [r.randint(0, 1) for _ in range(r.randint(1, 10))]
        ends = range(size, len(text), size)
        longest = max([0, *(n for n in ends if tuple(text[:n]) in stored)])
        match = cache.match_prefix(text)
        assert match.length == longest == size * len(match.pages)
        assert cache.match_prefix(torch.tensor(text)) == match


def test_a_text_without_all_of_its_pages_is_refused():
    pool = attn.PageAllocator(4, 2)
    with pytest.raises(ValueError, match="cover the 4 ids, 2 on each; got 1"):
        PrefixCache(pool).insert([1, 2, 3, 4], [pool.allocate()])


B, H, HKV, D, DV, P, S = 3, 4, 2, 6, 5, 7, 4


def tensors(L=1):
    query = randn(B, H, L, D, seed=1).double()
    prefix = randn(HKV, P, D, seed=2).double(), randn(HKV, P, DV).double()
    own = randn(B, HKV, S, D, seed=3).double(), randn(B, HKV, S, DV).double()
    return query, prefix, own


def whole(prefix, own):
    pairs = zip(prefix, own, strict=True)
    return [torch.cat([x.expand(B, -1, -1, -1), y], 2) for x, y in pairs]


@pytest.mark.parametrize("L", (1, 3))
def test_reading_the_prefix_once_equals_attention_over_the_whole(L):
    query, prefix, own = tensors(L)
    call = {"enable_gqa": True, "scale": 0.7, "softcap": 3.0}
    out, lse = cascade_attention(
        query, *prefix, *own, is_causal=True, q_offset=S - L,
        return_lse=True, **call,
    )  # fmt: skip
    want, want_lse = attn.scaled_dot_product_attention(
        query, *whole(prefix, own), is_causal=True, q_offset=P + S - L,
        return_lse=True, **call,
    )  # fmt: skip
    assert (out - want).abs().max() < 1e-12
    assert (lse - want_lse).abs().max() < 1e-12


def test_rows_may_have_own_keys_of_other_lengths_or_none():
    query, prefix, own = tensors()
    lengths = torch.tensor([4, 1, 0])
    out = cascade_attention(
        query, *prefix, *own, attn.padding(lengths), enable_gqa=True
    )
    for row, n in enumerate(lengths.tolist()):
        key, value = (x[row, None, :, : P + n] for x in whole(prefix, own))
        want = attn.scaled_dot_product_attention(
            query[row, None], key, value, enable_gqa=True
        )
        assert (out[row] - want[0]).abs().max() < 1e-12


def test_no_prefix_or_no_own_keys_is_the_other_alone():
    query, prefix, own = tensors()
    none = [x[:, :0] for x in prefix]
    out = cascade_attention(query, *none, *own, enable_gqa=True)
    want = attn.scaled_dot_product_attention(query, *own, enable_gqa=True)
    assert (out - want).abs().max() < 1e-12
    none = [x[:, :, :0] for x in own]
    out = cascade_attention(query, *prefix, *none, enable_gqa=True)
    k, v = (x.expand(B, -1, -1, -1) for x in prefix)
    want = attn.scaled_dot_product_attention(query, k, v, enable_gqa=True)
    assert (out - want).abs().max() < 1e-12


def test_no_copy_of_the_prefix_is_made_for_each_row():
    B, P = 16, 1024
    query = torch.randn(B, H, 1, 64)
    prefix = torch.randn(HKV, P, 64)
    own = torch.randn(B, HKV, 4, 64)
    with LiveMemory() as memory:
        cascade_attention(query, prefix, prefix, own, own, enable_gqa=True)
    assert memory.peak < B * prefix.numel() / 2


def test_a_prefix_of_several_rows_is_refused():
    query, prefix, own = tensors()
    with pytest.raises(ValueError, match=r"prefix_key must have shape \(Hkv"):
        cascade_attention(query, prefix[0][None], prefix[1], *own)
    with pytest.raises(ValueError, match="query must have shape"):
        cascade_attention(query[0], *prefix, *own)


def paged(lengths, size=3, L=1):
    """Return a query and a pool of rows, whose other slots are NaN."""
    pool = attn.PagePool(24, size, HKV, D, DV, dtype=torch.float64)
    pool.key.fill_(torch.nan), pool.value.fill_(torch.nan)
    cache, most = attn.PagedCache(pool, len(lengths)), max(lengths)
    key = randn(len(lengths), HKV, most, D, seed=1)
    value = randn(len(lengths), HKV, most, DV, seed=2)
    cache.update(key, value, torch.tensor(lengths))
    return randn(len(lengths), H, L, D), key, value, cache


@pytest.mark.parametrize("L", (1, 3))
def test_attention_page_by_page_equals_that_over_each_row(L):
    lengths = [10, 3, 1, 7, 0]
    query, key, value, cache = paged(lengths, L=L)
    pool = cache.pool
    out = paged_attention(
        query, pool.key, pool.value, cache.block_table, cache.seq_len,
        scale=0.4, softcap=2.0,
    )  # fmt: skip
    for row, n in enumerate(lengths):
        want = attn.scaled_dot_product_attention(
            query[row, None], key[row, None, :, :n], value[row, None, :, :n],
            is_causal=True, q_offset=n - L, enable_gqa=True, scale=0.4,
            softcap=2.0,
        )  # fmt: skip
        assert (out[row] - want[0]).abs().max() < 1e-12
    assert not out[4].any(), "a row without tokens"


def test_page_by_page_no_row_is_copied_together():
    pool = attn.PagePool(64, 16, HKV, 64)
    pool.key.fill_(0.5), pool.value.fill_(0.5)
    table, lengths = torch.arange(64).view(2, 32), torch.tensor([512, 500])
    query = torch.randn(2, H, 1, 64)
    with LiveMemory() as memory:
        paged_attention(query, pool.key, pool.value, table, lengths)
    assert memory.peak < pool.key.numel() / 4


def test_a_table_without_the_pages_of_its_tokens_is_refused():
    query, _, _, cache = paged([5, 2])
    pool, table = cache.pool, cache.block_table
    tensors = (query, pool.key, pool.value)
    with pytest.raises(ValueError, match="3 pages for the longest row; got 2"):
        paged_attention(*tensors, table, torch.tensor([7, 2]))
    with pytest.raises(
        ValueError, match=r"pages 0 to 23 .*; got \[0, 1, 2, -1"
    ):
        paged_attention(*tensors, table, torch.tensor([5, 5]))
    with pytest.raises(ValueError, match="the 2 rows of query; got 1"):
        paged_attention(*tensors, table[:1], cache.seq_len)
    with pytest.raises(ValueError, match=r"\(B, M\) and \(B,\); got"):
        paged_attention(*tensors, table[0], cache.seq_len)
