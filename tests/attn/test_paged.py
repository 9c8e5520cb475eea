"""Pages: ragged rows, sharing without aliasing, and nothing gets lost."""

import pytest
import torch

import attn
from tests.attn.cases import randn
from tests.attn.test_cache import DV, HKV, B, D, K, N, V, paged


def test_the_block_table_locates_every_token():
    cache = paged(page_size=4)
    cache.update(K, V, torch.tensor([N, 3]))
    table = cache.block_table
    assert table.dtype == torch.int32 and table.shape == (B, 3)
    assert table[1].tolist()[1:] == [-1, -1]
    for row, length in enumerate((N, 3)):
        for i in range(length):
            page = int(table[row, i // 4])
            assert torch.equal(cache.pool.key[page, :, i % 4], K[row, :, i])


def used(cache):
    return sum(1 for count in cache.pool.ref_counts if count)


def test_a_fork_copies_a_page_only_when_a_partial_one_is_written_to():
    cache = paged(batch=1, page_size=4)
    cache.update(K[:1, :, :6], V[:1, :, :6])
    assert used(cache) == 2
    fork = cache.fork()
    assert used(cache) == 2, "nothing was written"
    fork.update(K[:1, :, 6:7], V[:1, :, 6:7])
    assert used(cache) == 3, "the half-full page"
    cache.update(K[:1, :, 6:7] + 1, V[:1, :, 6:7])
    assert used(cache) == 3, "now its own"
    fork.update(K[:1, :, 7:8], V[:1, :, 7:8])
    another = fork.fork()
    another.update(K[:1, :, 8:9], V[:1, :, 8:9])
    assert used(cache) == 4, "full pages are never copied"


def test_released_pages_return_to_the_pool():
    cache = paged(page_size=2)
    everything = len(cache.pool.free_pages)
    cache.update(K, V)
    fork = cache.fork()
    cache.crop(3)
    fork.reorder(torch.tensor([0, 0, 1]))
    cache.release()
    assert len(cache.pool.free_pages) < everything
    fork.release()
    assert sorted(cache.pool.free_pages) == list(range(everything))
    assert set(cache.pool.ref_counts) == {0}


def test_an_update_without_free_pages_is_refused_and_changes_nothing():
    cache = paged(page_size=2, pages=7)
    cache.update(K[:, :, :5], V[:, :, :5])  # six pages
    with pytest.raises(
        ValueError, match="fit in the 1 free pages of 2 .*; got .* 2$"
    ):
        cache.update(K[:, :, 5:7], V[:, :, 5:7])
    fork = cache.fork()
    with pytest.raises(
        ValueError, match="free pages .*; got tokens for 2"
    ):  # copies
        fork.update(K[:, :, 5:6], V[:, :, 5:6])
    assert len(cache.pool.free_pages) == 1
    lengths = torch.tensor([0, 1])
    view = cache.update(K[:, :, 5:6], V[:, :, 5:6], lengths)
    assert torch.equal(view.key[1], K[1, :, :6])


def test_two_caches_share_a_pool_but_no_tokens():
    first = paged()
    second = attn.PagedCache(first.pool, 1)
    a = first.update(K[:, :, :4], V[:, :, :4])
    b = second.update(randn(1, HKV, 5, D), randn(1, HKV, 5, DV))
    assert torch.equal(a.key, K[:, :, :4])
    assert torch.equal(b.key, randn(1, HKV, 5, D))
    again = first.update(K[:, :, 4:5], V[:, :, 4:5])
    assert torch.equal(again.key, K[:, :, :5])
