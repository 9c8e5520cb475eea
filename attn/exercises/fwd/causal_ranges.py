"""Cases of ``fwd-causal_ranges``."""

from collections.abc import Iterator
from typing import Any

from attn import masks
from attn.exercises.draw import Draw
from attn.exercises.spec import Case, Exercise, Property

Tiles = tuple[range, range]


def causal_ranges(first: int, last: int, kv_len: int, block_s: int) -> Tiles:
    """Read the tiles off the mask itself, one by one."""
    rows = last - first + 1
    allowed = masks.causal().dense(rows, kv_len, q_offset=first)
    whole, cut = [], []
    for n, tile in enumerate(allowed[0, 0].split(block_s, 1)):
        if tile.all() and tile.shape[1] == block_s:
            whole.append(n)
        elif tile.any():
            cut.append(n)
    return _as_range(whole), _as_range(cut, len(whole))


def _as_range(numbers: list[int], at: int = 0) -> range:
    """Return consecutive numbers as a range; an empty one is at a place."""
    return range(numbers[0], numbers[-1] + 1) if numbers else range(at, at)


def _cases(g: Draw) -> Iterator[Case]:
    when = "a tile holds one key"
    for _ in range(2):
        first = g.between(1, 4)
        yield Case(when, (first, first + g.between(1, 3), 12, 1))
    when = "there is one query"
    for last in (3, 4, 5):
        yield Case(when, (last, last, 24, g.between(2, 3)))
    yield Case(when, (7, 7, 24, 4))
    when = "there is a block of queries"
    for _ in range(3):
        size, first = g.between(3, 6), g.between(6, 20)
        last = first + g.between(3, 9)
        yield Case(when, (first, last, 12 * size, size))
    yield Case(when, (8, 15, 64, 4))
    when = "the block begins at position 0"
    yield Case(when, (0, g.between(4, 7), 32, 4))
    when = "the keys end inside a tile"
    yield Case(when, (g.between(30, 40), 47, 4 * g.between(4, 6) + 1, 4))
    yield Case(when, (20, 23, 18, 4))
    when = "all queries come after all keys"
    yield Case(when, (g.between(40, 50), 60, 16, 4))
    when = "the first queries come before all keys"
    yield Case(when, (g.between(-9, -6), 5, 24, 4))
    when = "all queries come before all keys"
    yield Case(when, (-12, g.between(-8, -5), 24, 4))


def _kinds(case: Case) -> tuple[set[int], set[int]]:
    """Return the whole tiles, and the cut ones."""
    whole, cut = causal_ranges(*case.args)
    return set(whole), set(cut)


def _given(output: Any) -> tuple[set[int], set[int]]:
    """Return the tiles of an answer; a tuple may be the ends of a range."""
    whole, cut = output
    if isinstance(whole, tuple) or isinstance(cut, tuple):
        raise TypeError("no tiles")
    return set(whole), set(cut)


def _none_twice(case: Case, output: Any) -> bool:
    whole, cut = _given(output)
    return not whole & cut


def _all_there(case: Case, output: Any) -> bool:
    return set().union(*_kinds(case)) <= set().union(*_given(output))


def _none_above(case: Case, output: Any) -> bool:
    return set().union(*_given(output)) <= set().union(*_kinds(case))


def _whole_is_whole(case: Case, output: Any) -> bool:
    return not _given(output)[0] & _kinds(case)[1]


def _cut_is_cut(case: Case, output: Any) -> bool:
    return not _given(output)[1] & _kinds(case)[0]


exercise = Exercise(
    id="fwd-causal_ranges",
    points=2,
    reference=causal_ranges,
    cases=_cases,
    returns=("the range of whole tiles", "the range of cut ones"),
    properties=(
        Property("a tile is in both ranges", _none_twice),
        Property(
            "a tile that holds allowed pairs is in neither range", _all_there
        ),
        Property(
            "a tile is visited in which nothing is allowed, or that does not "
            "exist",
            _none_above,
        ),
        Property(
            "a tile is called whole that is not: some query does not see all "
            "of it, or it is not full of keys",
            _whole_is_whole,
        ),
        Property(
            "a tile is called cut that is full of keys, and every query sees "
            "them all",
            _cut_is_cut,
        ),
    ),
    breaks={
        "position 0": lambda c: c.args[0] > 0,
        "S = 1": lambda c: c.args[2] > 1,
        "L = S": lambda c: len({c.args[1] - c.args[0] + 1, *c.args[2:]}) == 3,
    },
)
