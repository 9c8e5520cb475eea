"""Exercise ``fwd-causal_ranges``: what a causal kernel need not look at."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator

from attn import masks
from attn.exercises.spec import Case, Exercise

Tiles = tuple[range, range]


def causal_ranges(first: int, last: int, kv_len: int, block_s: int) -> Tiles:
    """The reference looks at the mask itself, tile by tile."""
    rows = last - first + 1
    seen = masks.causal().dense(rows, kv_len, q_offset=first)
    seen = seen.reshape(rows, kv_len)
    whole, cut = [], []
    for n, tile in enumerate(seen.split(block_s, 1)):
        if tile.all() and tile.shape[1] == block_s:
            whole.append(n)
        elif tile.any():
            cut.append(n)
    return _as_range(whole), _as_range(cut)


def _as_range(numbers: list[int]) -> range:
    return range(numbers[0], numbers[-1] + 1) if numbers else range(0)


def _cases(g: Generator) -> Iterator[Case]:
    def some(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=g))

    stage = "a tile holds one key"
    for _ in range(2):
        first = some(1, 4)
        yield Case(stage, (first, first + some(1, 3), 12, 1))
    stage = "there is one query"
    for last in (3, 4, 5):
        yield Case(stage, (last, last, 24, some(2, 3)))
    yield Case(stage, (7, 7, 24, 4))
    stage = "there is a block of queries"
    for _ in range(3):
        size, first = some(3, 6), some(6, 20)
        yield Case(stage, (first, first + some(3, 9), 12 * size, size))
    yield Case(stage, (8, 15, 64, 4))
    stage = "the block begins at position 0"
    yield Case(stage, (0, some(4, 7), 32, 4))
    stage = "the keys end inside a tile"
    yield Case(stage, (some(30, 40), 47, 4 * some(4, 6) + 1, 4))
    yield Case(stage, (20, 23, 18, 4))
    stage = "all queries stand behind all keys"
    yield Case(stage, (some(40, 50), 60, 16, 4))
    stage = "the first queries stand before all keys"
    yield Case(stage, (some(-9, -6), 5, 24, 4))
    stage = "all queries stand before all keys"
    yield Case(stage, (-12, some(-8, -5), 24, 4))


exercise = Exercise(
    id="fwd-causal_ranges",
    points=2,
    reference=causal_ranges,
    cases=_cases,
    hints=(
        "Which query of the block sees the fewest keys, and how many? Which "
        "sees the most? The two numbers decide everything.",
        "The first query sees the keys 0 to first: first + 1 of them, and no "
        "more than kv_len. So many whole tiles fit: that number // block_s. "
        "The last query says where the tiles end, and there a tile that has "
        "begun counts.",
        "-(-n // block_s) rounds up. Positions may be negative: a number of "
        "tiles is never below 0 (max(..., 0)), and the cut ones do not end "
        "before they begin.",
    ),
)


def _ranges(whole: int, end: int) -> Tiles:
    return range(max(whole, 0)), range(max(whole, 0), max(end, whole, 0))


def _up(a: int, b: int) -> int:
    return -(-a // b)


@exercise.misconception(
    "the first query does not see itself", exposed_by="tiles of one key"
)
def strict_first(first, last, kv_len, block_s):
    """first // block_s counts the keys before the first query. It also sees
    the key at its own position. How many are that, from key 0?"""
    return _ranges(
        min(first, kv_len) // block_s, _up(min(last + 1, kv_len), block_s)
    )


@exercise.misconception(
    "the last query does not see itself", exposed_by="tiles of one key"
)
def strict_last(first, last, kv_len, block_s):
    """The tiles end where the last query stands, and the key at its own
    position is left out. How many keys does it see, from key 0?"""
    return _ranges(
        min(first + 1, kv_len) // block_s, _up(min(last, kv_len), block_s)
    )


@exercise.misconception(
    "the tile that has begun is left out", exposed_by="a single query"
)
def floor_end(first, last, kv_len, block_s):
    """(last + 1) // block_s drops the tile on the diagonal, which holds the
    query's own key. Round up: how many tiles does it take to hold last + 1
    keys?"""
    return _ranges(
        min(first + 1, kv_len) // block_s, min(last + 1, kv_len) // block_s
    )


@exercise.misconception(
    "one tile too many at the end", exposed_by="a single query"
)
def one_too_many(first, last, kv_len, block_s):
    """n // block_s + 1 rounds up, except where n is a multiple: then it is a
    tile that nobody sees. Try 8 keys in tiles of 4."""
    return _ranges(
        min(first + 1, kv_len) // block_s,
        min(last + 1, kv_len) // block_s + 1,
    )


@exercise.misconception(
    "whole for the last query alone", exposed_by="a block of queries"
)
def whole_for_last(first, last, kv_len, block_s):
    """A tile needs no mask when *every* query of the block sees all of it.
    The last query sees the most keys. Which sees the fewest?"""
    return _ranges(
        min(last + 1, kv_len) // block_s, _up(min(last + 1, kv_len), block_s)
    )


@exercise.misconception(
    "ends with the first query", exposed_by="a block of queries"
)
def ends_with_first(first, last, kv_len, block_s):
    """The tiles end where the first query's keys end. The later queries of
    the block see more of them. Which one sees the most?"""
    return _ranges(
        min(first + 1, kv_len) // block_s, _up(min(first + 1, kv_len), block_s)
    )


@exercise.misconception(
    "nothing is known to be whole", exposed_by="a block of queries"
)
def all_cut(first, last, kv_len, block_s):
    """Right, and slow: every tile is masked. Most tiles of a long sequence lie
    before the diagonal. Which of them does the first query see whole?"""
    return _ranges(0, _up(min(last + 1, kv_len), block_s))


@exercise.misconception("nothing is skipped", exposed_by="a block of queries")
def none_skipped(first, last, kv_len, block_s):
    """The cut tiles go on to the last key, and behind the last query all pairs
    are hidden: half of the work for nothing. Behind which key does nobody of
    this block see anything?"""
    return _ranges(min(first + 1, kv_len) // block_s, _up(kv_len, block_s))


@exercise.misconception(
    "a tile that is not full is called whole", exposed_by="ragged keys"
)
def ragged_is_whole(first, last, kv_len, block_s):
    """The last tile has fewer keys than block_s. Every query sees those, and
    still its scores need a mask: the lanes behind the last key are no keys.
    How many full tiles do kv_len keys make?"""
    whole = (first + 1) // block_s
    end = _up(min(last + 1, kv_len), block_s)
    return _ranges(min(whole, end), end)


@exercise.misconception(
    "the number of keys is not looked at", exposed_by="few keys"
)
def no_kv_len(first, last, kv_len, block_s):
    """Tiles are counted up to the queries' positions, and the keys end before.
    What do first and last say when there are only kv_len keys?"""
    return _ranges((first + 1) // block_s, _up(last + 1, block_s))


@exercise.misconception(
    "negative numbers of tiles", exposed_by="queries before all keys"
)
def negative(first, last, kv_len, block_s):
    """A position of -5 sees no key. In Python -4 // 4 is -1, and range(-1, 2)
    has a tile -1: a kernel would read before the tensor. What is the
    smallest number of tiles?"""
    whole = min(first + 1, kv_len) // block_s
    end = _up(min(last + 1, kv_len), block_s)
    return range(whole), range(whole, end)


@exercise.misconception(
    "keys in the place of tiles", exposed_by="a single query"
)
def in_keys(first, last, kv_len, block_s):
    """The ranges count keys. Where does a kernel start the tile n? At key n *
    block_s; here n is asked for."""
    whole, cut = causal_ranges(first, last, kv_len, block_s)
    return (
        range(whole.stop * block_s),
        range(cut.start * block_s, cut.stop * block_s),
    )


@exercise.equivalent("asks every tile")
def _ask(first, last, kv_len, block_s):
    whole, cut = [], []
    for n in range(_up(kv_len, block_s)):
        start, stop = n * block_s, (n + 1) * block_s
        if stop <= min(first + 1, kv_len):
            whole.append(n)
        elif start <= last:
            cut.append(n)
    return (
        range(len(whole)),
        range(len(whole), len(whole) + len(cut)),
    )


@exercise.equivalent("clamped at the start")
def _clamped(first, last, kv_len, block_s):
    sees_first = min(max(first + 1, 0), kv_len)
    sees_last = min(max(last + 1, 0), kv_len)
    whole = sees_first // block_s
    return range(whole), range(whole, (sees_last + block_s - 1) // block_s)


@exercise.equivalent("with divmod, as lists of two ranges")
def _lists(first, last, kv_len, block_s):
    keys = sorted((0, last + 1, kv_len))[1] if last >= 0 else 0
    end, rest = divmod(keys, block_s)
    whole = sorted((0, first + 1, kv_len))[1] // block_s if first >= 0 else 0
    return [range(0, whole), range(whole, end + (rest > 0))]
