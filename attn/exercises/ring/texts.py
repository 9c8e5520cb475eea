"""Texts that are cut up for a ring: the cases of forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case

OWN, CROSSED = "of this run", "of another run"
WHEN_CROSSED = "the messages come from another run"
ZIGZAG, CONTIGUOUS = "zigzag", "contiguous"
SIZES = {  # (B, H, Hkv, L, D, Dv), ranks, layout, is_causal
    "there is one rank": [
        ((1, 2, 2, 4, 4, 3), 1, CONTIGUOUS, False),
        ((1, 2, 2, 4, 4, 3), 1, ZIGZAG, True),
    ],
    "there are two ranks, and nothing is masked": [
        ((1, 2, 2, 4, 4, 3), 2, CONTIGUOUS, False),
        ((2, 3, 3, 8, 6, 5), 2, CONTIGUOUS, False),
    ],
    "there are three ranks, and nothing is masked": [
        ((1, 2, 2, 6, 4, 3), 3, CONTIGUOUS, False),
    ],
    "a causal mask, contiguous": [
        ((1, 2, 2, 6, 4, 3), 2, CONTIGUOUS, True),
        ((2, 3, 3, 9, 6, 5), 3, CONTIGUOUS, True),
    ],
    "a causal mask, zigzag": [
        ((1, 2, 2, 8, 4, 3), 2, ZIGZAG, True),
        ((2, 3, 3, 12, 6, 5), 3, ZIGZAG, True),
    ],
    "zigzag, and nothing is masked": [
        ((1, 2, 2, 12, 4, 3), 3, ZIGZAG, False),
    ],
    "query heads share key heads": [((2, 6, 2, 12, 4, 5), 3, ZIGZAG, True)],
    "each rank has one token": [
        ((1, 1, 1, 3, 4, 3), 3, CONTIGUOUS, True),
        ((1, 1, 1, 2, 4, 3), 2, CONTIGUOUS, False),
    ],
    "there are five ranks": [
        ((1, 2, 1, 20, 6, 3), 5, ZIGZAG, True),
        ((1, 2, 2, 10, 6, 3), 5, CONTIGUOUS, False),
        ((1, 2, 2, 10, 6, 3), 5, CONTIGUOUS, True),
    ],
}


def cases(g: Draw, inputs: Callable[..., tuple[Any, ...]]) -> Iterator[Case]:
    """Yield the cases; ``inputs`` makes the tensors of query, key, value."""
    for when, (shape, ranks, layout, is_causal) in entries(SIZES):
        B, H, Hkv, L, D, Dv = shape
        tensors = g.randn(B, H, L, D), g.randn(B, Hkv, L, D)
        value = g.randn(B, Hkv, L, Dv)
        given = inputs(*tensors, value, is_causal)
        yield Case(when, (*given, ranks, layout, is_causal))

    when = "the scores are large, so that blocks weigh unequally"
    for layout in (CONTIGUOUS, ZIGZAG):
        q, k = 3 * g.randn(1, 2, 12, 4), 3 * g.randn(1, 2, 12, 4)
        given = inputs(q, k, g.randn(1, 2, 12, 3), True)
        yield Case(when, (*given, 3, layout, True))

    when = "layout and is_causal are not named"
    given = inputs(
        g.randn(1, 2, 8, 4), g.randn(1, 2, 8, 4), g.randn(1, 2, 8, 3), False
    )
    yield Case(when, (*given, 2))
    for layout, is_causal in ((CONTIGUOUS, False), (ZIGZAG, True)):
        given = inputs(
            *(g.randn(1, n, 12, 4) for n in (2, 1)),
            g.randn(1, 1, 12, 3),
            is_causal,
        )
        yield Case(WHEN_CROSSED, (*given, 3, layout, is_causal, CROSSED))


BREAKS: dict[str, Callable[[Case], Any]] = {
    "H = 1": lambda c: c.args[1].shape[1] > 1,
    "S = 1": lambda c: c.args[1].shape[2] > 5,
    "contiguous strides": lambda c: not c.args[0].is_contiguous(),
}
