"""Cases and properties of ``iface-NoRope``."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attn import positions
from attn.exercises.conditions import dtypes
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property

SIZES = {  # B, L, E, head_dim, and the first position
    "there is one token, at position 0": [(1, 1, 8, 4, 0)],
    "there are several tokens": [(1, 5, 12, 4, 0), (1, 3, 12, 2, 0)],
    "there is a batch, and each text has its positions": [(3, 5, 12, 4, 0)],
    "one token is decoded, far from the start": [(2, 1, 12, 6, 19)],
    "a text is long, of 5,000 tokens": [(1, 5000, 2, 2, 0)],
    "head_dim is larger than E": [(2, 3, 4, 10, 0)],
    "axes have the same length": [(4, 4, 4, 4, 0)],
}
SHARED = {  # B, L, E, head_dim
    "the texts of a batch share one row of positions": [
        (3, 5, 12, 4),
        (2, 4, 6, 8),
    ],
}
ROWS = {
    "there is a batch, and each text has its positions": [
        [[0, 1, 2, 3], [0, 0, 0, 1]],
    ],
    "the positions have gaps, and go backwards": [
        [[5, 3, 90, 0], [2, 2, 1, 7]],
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    def case(when: str, ids: Tensor, B: int, E: int, head_dim: int) -> Case:
        given = {"position_ids": ids}  # as a Llama calls it
        x = g.randn(B, ids.shape[1], E)
        return Case(when, (x,), given, init={"head_dim": head_dim})

    for when, (B, L, E, D, first) in entries(SIZES):
        ids = torch.arange(first, first + L).expand(B, L)
        yield case(when, ids, B, E, D)
    for when, (B, L, E, D) in entries(SHARED):
        yield case(when, torch.arange(L)[None], B, E, D)
    when = "it is called again, with fewer texts, and shorter ones"
    more, fewer = (
        case(when, torch.arange(L).expand(B, L), B, 12, 4)
        for B, L in ((3, 5), (2, 4))
    )
    yield replace(fewer, before=(more,))
    for when, rows in entries(ROWS):
        yield case(when, torch.tensor(rows), 2, 10, 6)


def _on_the_circle(case: Case, out: Any) -> bool:
    cos, sin = out
    one = torch.ones((), dtype=cos.dtype)
    return bool((cos.square() + sin.square() == one).all())


exercise = Exercise(
    id="iface-NoRope",
    points=1,
    reference=positions.NoRope,
    cases=_cases,
    returns=("cos", "sin"),
    also=(dtypes(torch.bfloat16, torch.float16),),
    properties=(
        Property(
            "Two tables are returned, cos and then sin.",
            lambda case, out: isinstance(out, tuple | list) and len(out) == 2,
        ),
        Property(
            "cos² + sin² is 1 for every angle, and here it is not: which "
            "angle has these two?",
            _on_the_circle,
        ),
    ),
    breaks={
        "position 0": lambda c: c.kwargs["position_ids"].any(),
        "H = 1": lambda c: len(c.args[0]) > 1,
    },
)
