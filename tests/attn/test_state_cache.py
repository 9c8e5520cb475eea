"""A state is replaced, never cropped: snapshots, forks, and refusals."""

import pytest
import torch

from attn.cache import StateCache
from attn.nn import GatedDeltaNet
from tests.attn.cases import assert_equal, randn

B, L, E, H = 2, 20, 16, 2
X = randn(B, L, E)


def layer():
    torch.manual_seed(0)
    return GatedDeltaNet(E, H).double()


def read(module, cache, *parts):
    """Let a layer read parts of the text; the last output."""
    for part in parts:
        out = module(X[:, part], cache=cache)
    return out.detach()


def test_the_size_does_not_depend_on_the_number_of_tokens():
    module, cache, sizes = layer(), StateCache(), []
    assert cache.nbytes == 0
    for i in range(L):
        read(module, cache, slice(i, i + 1))
        sizes.append(cache.nbytes)
    heads, conv = H * (E // H) ** 2, 3 * 3 * E
    assert set(sizes) == {B * (heads + conv) * 8}
    assert cache.seq_len == L and cache.positions(2).tolist() == [L, L + 1]
    assert cache.mask_lengths(3) == (L + 3,) and cache.valid() is None


def test_crop_goes_back_to_a_snapshot_and_reads_on_as_if_nothing_had_been():
    module, cache, fresh = layer(), StateCache(), StateCache()
    read(module, cache, slice(0, 9))
    cache.snapshot()
    read(module, cache, slice(12, 17))  # a draft
    cache.crop(9)
    got = read(module, cache, slice(9, 12))
    assert_equal(got, read(module, fresh, slice(0, 9), slice(9, 12)))
    assert cache.seq_len == 12


def test_crop_refuses_where_no_snapshot_was_taken():
    module, cache = layer(), StateCache()
    read(module, cache, slice(0, 9))
    with pytest.raises(ValueError, match="of a snapshot.*none is kept; got 8"):
        cache.crop(8)
    cache.snapshot()
    read(module, cache, slice(9, 12))
    with pytest.raises(ValueError, match=r"state: \[9\]; got 10. Call snap"):
        cache.crop(10)
    with pytest.raises(ValueError, match="length must be 0 to 12"):
        cache.crop(13)
    cache.crop(12)  # all tokens: nothing to forget
    cache.crop(0)  # none: a new cache
    assert cache.seq_len == cache.nbytes == 0
    assert_equal(
        read(module, cache, slice(0, 5)),
        read(module, StateCache(), slice(0, 5)),
    )


def test_the_oldest_snapshots_are_dropped():
    module, cache = layer(), StateCache(max_snapshots=3)
    for i in range(4):
        read(module, cache, slice(i, i + 1))
        cache.snapshot()
    assert [x.seq_len for x in cache.snapshots] == [2, 3, 4]
    cache.crop(3)
    assert [x.seq_len for x in cache.snapshots] == [2, 3]
    with pytest.raises(ValueError, match="length must be that of a snapshot"):
        cache.crop(1)
    none = StateCache(max_snapshots=0)
    read(module, none, slice(0, 2))
    taken = none.snapshot()
    read(module, none, slice(2, 4))
    assert not none.snapshots
    none.restore(taken)  # kept by the caller
    assert none.seq_len == 2


def test_forks_are_independent():
    module, cache = layer(), StateCache()
    read(module, cache, slice(0, 5))
    fork = cache.fork()
    want = read(module, cache, slice(5, 8))
    read(module, fork, slice(10, 13))
    assert (cache.seq_len, fork.seq_len) == (8, 8)
    assert not torch.equal(cache.state, fork.state)
    again = StateCache()
    assert_equal(read(module, again, slice(0, 5), slice(5, 8)), want)


def test_reorder_moves_rows_and_their_snapshots():
    module, cache = layer(), StateCache()
    read(module, cache, slice(0, 5))
    cache.snapshot()
    before = cache.state
    rows = torch.tensor([1, 1, 0])
    cache.reorder(rows)
    assert_equal(cache.state, before[rows])
    assert len(cache.conv) == len(cache.snapshots[0].state) == 3
    cache.crop(5)
    assert_equal(cache.state, before[rows])


S, C = torch.zeros(1, 2, 3, 4), torch.zeros(1, 3, 5)
REFUSED = {
    r"state must have shape \(B, H, D, Dv\); got \(2, 3, 4\)": (
        lambda cache: cache.update(S[0])
    ),
    r"conv must have shape \(B, K - 1, E\); got \(1, 2, 3, 4\). Keys and": (
        lambda cache: cache.update(S, S)
    ),
    r"state must be like the stored one, \(1, 2, 3, 4\)": (
        lambda cache: (cache.update(S), cache.update(S[:, :1]))
    ),
    "conv must be None, as before": (
        lambda cache: (cache.update(S), cache.update(S, C))
    ),
    r"conv must be a tensor \(B, K - 1, E\); got None": (
        lambda cache: (cache.update(S, C), cache.update(S))
    ),
    "count must be an int, at least 0; got -1": (
        lambda cache: cache.update(S, count=-1)
    ),
    "snapshot must be what StateCache.snapshot returned; got int": (
        lambda cache: cache.restore(3)
    ),
    "max_snapshots must be an int, at least 0; got None": (
        lambda _: StateCache(None)
    ),
    "rows must be 0 to 0": (
        lambda cache: (cache.update(S), cache.reorder(torch.tensor([1])))
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_invalid_arguments_are_refused(message):
    with pytest.raises((ValueError, TypeError), match=message):
        REFUSED[message](StateCache())
