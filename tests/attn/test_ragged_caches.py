"""Rows of different lengths: a cache stores the real tokens of each alone.

Pages that rows share: without aliasing, and nothing gets lost.
"""

import pytest
import torch

import attn
from attn import DynamicCache, QuantizedCache, SlidingCache, StaticCache
from tests.attn.cases import assert_exact, randn
from tests.attn.test_cache import DV, HKV, WINDOW, B, D, K, N, Q, V, paged


def static(**layout):
    return StaticCache(B, HKV, N, D, DV, dtype=torch.float64, **layout)


KINDS = {
    "dynamic": DynamicCache,
    "sliding": lambda: SlidingCache(WINDOW),
    "a window of one": lambda: SlidingCache(1),
    "static": static,
    "transposed": lambda: static(transposed_keys=True),
    "paged": paged,
}
every_cache = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
TURNS = (
    ([3, 5], [1, 1], [0, 2], [4, 0], [1, 1]),
    ([1, 1], [8, 1], [1, 1], [1, 6]),
    ([0, 3], [0, 0], [5, 0], [1, 1]),
)


def padded(x, starts, lengths, fill):
    """Return the next tokens of each row, and padding on the right."""
    size = max(lengths)
    out = torch.full((B, x.shape[1], size, x.shape[3]), fill, dtype=x.dtype)
    for row, (start, count) in enumerate(zip(starts, lengths, strict=True)):
        out[row, :, :count] = x[row, :, start : start + count]
    return out


@every_cache
@pytest.mark.parametrize("turns", TURNS, ids=str)
def test_rows_of_different_lengths_equal_each_row_alone(make, turns):
    cache = make()
    mask = getattr(cache, "mask", attn.causal())
    done = [0] * B
    for counts in turns:
        key, value = (padded(x, done, counts, torch.nan) for x in (K, V))
        same = len({*counts}) == 1  # as in decoding, where none is given
        view = cache.update(key, value, None if same else torch.tensor(counts))
        positions = cache.key_positions(view).expand(B, -1)
        out = attn.grouped_attention(
            padded(Q, done, counts, 0.0),
            view.key,
            view.value,
            mask,
            q_offset=torch.as_tensor(view.q_offset).expand(B),
        )
        for row, (start, count) in enumerate(zip(done, counts, strict=True)):
            end = start + count
            alone = attn.grouped_attention(
                Q[row, :, start:end],
                K[row, :, :end],
                V[row, :, :end],
                mask,
                q_offset=start,
            )
            assert_exact(out[row, :, :count], alone)
            stored = int(torch.as_tensor(view.q_offset).expand(B)[row]) + count
            valid = cache.valid()
            if valid is not None:
                assert valid[row].sum() == stored
            kept = positions[row, :stored]
            assert torch.equal(kept, torch.arange(end - stored, end))
        done = [a + b for a, b in zip(done, counts, strict=True)]
        assert torch.as_tensor(cache.seq_len).expand(B).tolist() == done
    assert cache.positions(2).tolist() == [[n, n + 1] for n in done]


@every_cache
def test_ragged_rows_are_reordered_forked_and_cropped(make):
    cache = make()
    lengths = torch.tensor([2, 4])
    cache.update(K[:, :, :5], V[:, :, :5], lengths)
    fork = cache.fork()
    cache.reorder(torch.tensor([1, 0]))
    assert cache.seq_len.tolist() == [4, 2]
    view = cache.update(K[:, :, 5:6], V[:, :, 5:6])
    for row, other, count in ((0, 1, 4), (1, 0, 2)):
        stored = int(view.q_offset[row])
        expected = torch.cat(
            [K[other, :, count - stored : count], K[row, :, 5:6]], 1
        )
        assert torch.equal(view.key[row, :, : stored + 1], expected)
    assert fork.seq_len.tolist() == [2, 4]
    if isinstance(fork, SlidingCache):
        with pytest.raises(ValueError, match="length must be 4: .* forgotten"):
            fork.crop(2)
        return
    with pytest.raises(ValueError, match="length must be 0 to 2"):
        fork.crop(3)
    fork.crop(1)
    view = fork.update(K[:, :, 1:2], V[:, :, 1:2])
    assert torch.equal(view.key, K[:, :, :2])
    assert torch.as_tensor(fork.seq_len).eq(2).all()


def test_caches_that_cannot_store_ragged_rows_refuse_them():
    lengths = torch.tensor([1, 2])
    for cache, message in (
        (QuantizedCache(), "lengths must be None with a QuantizedCache"),
        (SlidingCache(3, 1), "lengths must be None with num_sink_tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            cache.update(K, V, lengths)
        assert cache.seq_len == 0
    full = static()
    full.update(K[:, :, :8], V[:, :, :8], torch.tensor([8, 1]))
    with pytest.raises(ValueError, match="key must fit in .*, 11 .*; got 12"):
        full.update(K[:, :, :4], V[:, :, :4], torch.tensor([4, 0]))
    assert full.seq_len.tolist() == [8, 1]


@every_cache
@pytest.mark.parametrize(
    "lengths,message",
    (
        ([1], "lengths must have shape .2,. and values from 0 to 3; got .1."),
        ([4, 0], "lengths must .* values from 0 to 3; got .4, 0."),
        ([-1, 0], "lengths must .* values from 0 to 3; got .-1, 0."),
        ([1.0, 2.0], "lengths must be an integer tensor .*; got torch.float"),
    ),
)
def test_wrong_lengths_are_refused(make, lengths, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make().update(K[:, :, :3], V[:, :, :3], torch.tensor(lengths))


def test_a_cache_without_lengths_serves_rows_of_one_length():
    class Plain(DynamicCache):
        def update(self, key, value):
            return super().update(key, value)

    layer = attn.MultiHeadAttention(8, 2, is_causal=True)
    x = torch.randn(2, 3, 8)
    torch.testing.assert_close(layer(x, cache=Plain()), layer(x))


# --- pages -------------------------------------------------------------------


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
