"""Cases and properties of ``cache-sink_cache``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.conditions import ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view
from attn.positions import apply_rope, rope_frequencies, rope_tables


def _places(S: int, num_sinks: int, window: int) -> list[int]:
    """Return which tokens are kept."""
    return [m for m in range(S) if m < num_sinks or m >= S - window]


def sink_cache(
    key: Tensor,
    value: Tensor,
    cos: Tensor,
    sin: Tensor,
    num_sinks: int,
    window: int,
) -> tuple[Tensor, Tensor]:
    """Take the kept rows from a list of them."""
    kept = _places(key.shape[2], num_sinks, window)
    rows = torch.tensor(kept, dtype=torch.long)
    key, value = (x.index_select(2, rows) for x in (key, value))
    return apply_rope(key, cos[: len(kept)], sin[: len(kept)]), value


STILL = {  # S, num_sinks, window
    "nothing is rotated (cos 1, sin 0), and nothing is too much": [
        (5, 2, 6),
        (6, 2, 4),
    ],
    "nothing is rotated, and the first and last tokens overlap": [
        (5, 3, 4),
        (4, 2, 3),
    ],
    "nothing is rotated, and there is no room for all tokens": [
        (9, 2, 4),
        (12, 4, 3),
    ],
}
SIZES = {  # S, num_sinks, window, and B, Hkv, D, Dv
    "there is room for all tokens": [(5, 2, 6), (7, 3, 4)],
    "there is no room for all tokens": [
        (13, 2, 4),
        (12, 4, 3, 1, 2, 4, 3),
        (11, 3, 3, 2, 2, 8, 8),
    ],
    "the text is long, of 150 tokens": [(150, 40, 75, 1, 1, 2, 2)],
    "num_sinks is 0": [(8, 0, 3), (3, 0, 5)],
    "window is 0": [(8, 3, 0), (2, 4, 0)],
    "there are fewer tokens than num_sinks": [(3, 5, 4), (1, 4, 1)],
    "axes have the same length": [
        (4, 1, 2, 4, 4, 4, 4),
        (2, 1, 2, 2, 2, 2, 2),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        S: int,
        num_sinks: int,
        window: int,
        *sizes: int,
        rows: int | None = None,
        still: bool = False,
    ) -> Case:
        B, Hkv, D, Dv = sizes or (2, 3, 6, 5)
        rows = rows or S + 6
        positions = torch.zeros(rows) if still else torch.arange(rows)
        tables = rope_tables(positions, rope_frequencies(D, 100.0).inv_freq)
        inputs = g.randn(B, Hkv, S, D), g.randn(B, Hkv, S, Dv), *tables
        return Case(when, (*inputs, num_sinks, window))

    for when, sizes in entries(STILL):
        yield case(when, *sizes, still=True)
    for when, sizes in entries(SIZES):
        yield case(when, *sizes)

    when = "cos and sin have a row for each place in the cache, no more"
    yield case(when, 10, 2, 4, rows=6)
    yield case(when, 5, 4, 4, rows=8)


def _two(_case: Case, out: Any) -> bool:
    return (
        isinstance(out, (tuple, list))
        and len(out) == 2
        and all(isinstance(x, Tensor) and x.dim() == 4 for x in out)
    )


def _as_many(case: Case, out: Any) -> bool:
    if not _two(case, out):
        return True
    n = len(_places(case.args[0].shape[2], *case.args[4:]))
    return all(x.shape[2] == n for x in out)


def _right_values(case: Case, out: Any) -> bool:
    if not _two(case, out) or not _as_many(case, out):
        return True
    kept = _places(case.args[0].shape[2], *case.args[4:])
    return torch.equal(out[1], case.args[1][:, :, kept])


def _right_turn(case: Case, out: Any) -> bool:
    """Compare the keys, where the values are right."""
    if not _two(case, out) or not _as_many(case, out):
        return True
    right = sink_cache(*case.args)[0]
    return not _right_values(case, out) or torch.allclose(
        out[0], right, atol=1e-4
    )


exercise = Exercise(
    id="cache-sink_cache",
    points=2,
    reference=sink_cache,
    cases=_cases,
    returns=("key", "value"),
    also=(
        views(),
        ones("B Hkv"),
    ),
    given={"apply_rope": apply_rope},
    properties=(
        Property(
            "The result is two tensors of four axes: the kept keys, rotated, "
            "and the kept values.",
            _two,
        ),
        Property(
            "The number of tokens kept is not min(S, num_sinks + window): "
            "what happens where the first and the last overlap, and where "
            "one of the two numbers is 0?",
            _as_many,
        ),
        Property(
            "The values are as they came, those of the first tokens before "
            "those of the last, in the order of the text. Here they are "
            "not: which tokens are they?",
            _right_values,
        ),
        Property(
            "The right tokens are kept, and the keys are rotated by other "
            "angles: the first kept token is at place 0, the next one at "
            "place 1, and none is left out, wherever they were in the text. "
            "Which row of cos does the first of the last tokens get?",
            _right_turn,
        ),
    ),
    breaks={
        "position 0": lambda c: c.args[3].any(),
        "H = 1": lambda c: c.args[0].shape[1] > 1,
        "L = S": lambda c: c.args[0].shape[2] > c.args[4] + c.args[5] > 0,
        "contiguous strides": is_view,
    },
)
