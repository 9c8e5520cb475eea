"""Cases and properties of ``flash-merge_states``."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import gradients, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property

State = tuple[Tensor, Tensor]


SIZES = {  # rows, then for each part its keys and what moves its scores
    "one part weighs more than the other": [
        ((3,), (2, 0), (7, 0)),
        ((5,), (3, 1.5), (3, 0)),
        ((5,), (3, 0), (3, 1.5)),
    ],
    "there are batch and heads": [((2, 3, 4), (3, 0), (5, 0))],
    "axes have the same length": [((4, 4), (3, 0), (3, 0.7))],
    "there is one query": [
        ((2, 1), (3, 0), (1, 0)),
        ((1, 1), (3, 0), (1, 0)),
        ((1,), (3, 0), (1, 0)),
    ],
    "both parts have a very small lse": [((3,), (3, -20_000), (3, -20_200))],
    "the parts are thousands apart": [
        ((3,), (3, 4000), (3, 0)),
        ((3,), (3, 0), (3, 4000)),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    def state(*lead: int, S: int = 3, shift: float = 0.0) -> State:
        """Attend to S random keys, with scores moved by ``shift``."""
        scores = g.randn(*lead, S) + shift
        values = g.randn(*lead[:-1], S, 4)
        return scores.softmax(-1) @ values, scores.logsumexp(-1)

    def emptied(part: State, *rows: int) -> State:
        out, lse = (x.clone() for x in part)
        out[[*rows]], lse[[*rows]] = 0.0, -math.inf
        return out, lse

    when = "both parts have the same weight"
    (out, lse), (other, _) = state(3), state(3)
    yield Case(when, ((out, lse), (other, lse.clone())))

    for when, (rows, *parts) in entries(SIZES):
        yield Case(when, tuple(state(*rows, S=S, shift=x) for S, x in parts))

    for sign in (1, -1):
        when = f"the lse are around {sign * 100}"
        low, high = (state(3, shift=sign * 100 + i) for i in (0, 1))
        yield Case(when, (high, low), rtol=1e-4)

    when = "the rows are far apart"
    parts = state(3), state(3)
    for _, lse in parts:
        lse += torch.tensor([0.0, -110.0, -220.0])
    yield Case(when, parts, rtol=1e-4)

    first, second = state(4), state(4, shift=0.5)
    all_of_it = range(4)
    rows_of = {
        "the first part is empty": (all_of_it, ()),
        "the second part is empty": ((), all_of_it),
        "some rows are empty in one part": ([1], [2]),
        "both parts are empty": (all_of_it, all_of_it),
        "a row is empty in both parts, and others are not": ([1, 2], [1]),
    }
    for when, (a, b) in rows_of.items():
        yield Case(when, (emptied(first, *a), emptied(second, *b)))


def _between(case: Case, out: object) -> bool:
    """Claim that each element is between those of the two parts."""
    (a, p), (b, q) = case.args
    if not isinstance(out, tuple) or out[0].shape != a.shape:
        return True
    full = (p.isfinite() & q.isfinite())[..., None]
    low, high = torch.minimum(a, b), torch.maximum(a, b)
    good = (out[0] >= low - 1e-3) & (out[0] <= high + 1e-3)
    return bool((good | ~full).all())


exercise = Exercise(
    id="flash-merge_states",
    points=2,
    reference=functional.merge_states,
    cases=_cases,
    returns=("out", "lse"),
    also=(views(), gradients()),
    properties=(
        Property(
            "The result is a mean of the two outputs, so it is between "
            "them. Here it is not: do the shares sum to 1?",
            _between,
        ),
    ),
    breaks={
        "contiguous strides": lambda c: not c.args[0][0].is_contiguous(),
    },
)
