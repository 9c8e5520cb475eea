"""Cases and properties of ``pos-alibi_bias``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import positions
from attn.exercises.conditions import views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def alibi_bias(
    num_heads: int, query_positions: Tensor, key_positions: Tensor
) -> Tensor:
    """Return the bias of ``attn``: the reference."""
    return positions.alibi_bias(num_heads, query_positions, key_positions)


RANGES = {  # heads, queries and keys, each from a position to another
    "there is one head, and one query behind its keys": [(1, (4, 5), (0, 4))],
    "there are several heads, and one query": [
        (8, (5, 6), (0, 6)),
        (4, (9, 10), (0, 10)),
    ],
    "the queries are the last tokens": [
        (4, (4, 7), (0, 7)),
        (2, (3, 5), (0, 5)),
    ],
    "there are as many queries as keys": [
        (8, (0, 5), (0, 5)),
        (4, (0, 4), (0, 4)),
    ],
    "the number of heads is no power of two": [
        (6, (2, 5), (0, 5)),
        (12, (0, 2), (0, 4)),
    ],
    "keys come before and after the queries": [(4, (3, 5), (0, 8))],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, (heads, *ranges) in entries(RANGES):
        yield Case(when, (heads, *(torch.arange(*x) for x in ranges)))

    when = "the positions have gaps, and no order"
    for heads, *lengths in ((3, 4, 6), (5, 6, 2)):
        drawn = (torch.randint(0, 50, (n,), generator=g) for n in lengths)
        yield Case(when, (heads, *drawn))

    when = "the positions are far apart"
    far = torch.tensor([1003, 301, 2]), torch.tensor([0, 257, 999, 77])
    yield Case(when, (4, *far))


def _right_shape(case: Case, out: object) -> bool:
    heads, q, k = case.args
    return isinstance(out, Tensor) and out.shape == (heads, len(q), len(k))


exercise = Exercise(
    id="pos-alibi_bias",
    points=2,
    reference=alibi_bias,
    cases=_cases,
    also=(views(),),
    properties=(
        Property("The shape should be (H, L, S).", _right_shape),
        Property(
            "Nothing is masked here: every entry is finite.",
            lambda case, out: out.isfinite().all(),
        ),
        Property(
            "No entry is above 0: distance costs, in either direction.",
            lambda case, out: (out <= 0).all(),
        ),
    ),
    breaks={
        "position 0": lambda c: c.args[1][0] > 0,
        "S = 1": lambda c: len(c.args[2]) > 1,
        "H = 1": lambda c: c.args[0] > 1,
        "L = S": lambda c: len(c.args[1]) != len(c.args[2]),
        "contiguous strides": is_view,
    },
)
