"""Cases and properties of ``flex-score_mod``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn.exercises.conditions import dial, gradients, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import argument, is_view


def _reference(
    score: Tensor,
    b: Tensor,
    h: Tensor,
    q_idx: Tensor,
    kv_idx: Tensor,
    cap: float,
    slopes: Tensor,
    start: Tensor,
) -> Tensor:
    position = q_idx + start[b]
    return cap * (score / cap).tanh() - slopes[h] * (position - kv_idx).abs()


def _grid(B: int, H: int, L: int, S: int) -> tuple[Tensor, ...]:
    """Return the indices of every score, ready to broadcast."""
    sizes = (B, H, L, S)
    shapes = [[-1 if i == j else 1 for j in range(4)] for i in range(4)]
    return tuple(
        torch.arange(n).view(shape)
        for n, shape in zip(sizes, shapes, strict=True)
    )


SIZES = {  # B, H, L, S, and the cap
    "each head has its own slope": [(1, 4, 3, 5, 3.0)],
    "the queries of each row start somewhere else": [
        (3, 2, 4, 7, 2.0),
        (3, 3, 1, 6, 2.0),
    ],
    "there is one row of one head": [(1, 1, 3, 5, 3.0)],
    "axes have the same length": [(2, 2, 2, 2, 2.0)],
    "the cap is far above the scores": [(1, 2, 3, 3, 300.0)],
    "the cap is less than 1": [(1, 2, 3, 4, 0.3)],
}


def _cases(g: Draw) -> Iterator[Case]:
    def scores(*shape: int) -> Tensor:
        return 3 * g.randn(*shape)

    def slopes(H: int) -> Tensor:
        return 0.2 + torch.rand(H, generator=g)

    def starts(B: int) -> Tensor:
        return torch.randperm(9, generator=g)[:B] + 2

    def one(*at: int) -> tuple[Tensor, ...]:
        return tuple(torch.tensor(i) for i in at)

    zeros = torch.zeros(3, dtype=torch.long)
    size = (2, 2, 3, 4)
    when = "the slopes are 0, so only the cap acts"
    flat = torch.zeros(2)
    yield Case(when, (scores(), *one(0, 1, 2, 2), 2.0, flat, zeros))
    yield Case(when, (scores(*size), *_grid(*size), 1.7, flat, zeros[:2]))

    when = "the score is 0, so only the distance acts"
    for at in ((0, 0, 5, 2), (0, 0, 2, 5), (0, 0, 3, 3)):
        each_one = torch.zeros(()), *one(*at), 4.0, slopes(1), zeros[:1]
        yield Case(when, each_one)

    when = "one score is passed, of one head"
    yield Case(when, (scores(), *one(0, 0, 6, 1), 3.0, slopes(1), zeros[:1]))

    when = "each head has its own slope"
    at = one(0, g.between(1, 3), g.between(4, 6), 1)
    yield Case(when, (scores(), *at, 3.0, slopes(5), zeros[:1]))
    yield Case(when, (scores(*size), *_grid(*size), 2.5, slopes(2), zeros[:2]))

    when = "the queries of each row start somewhere else"
    yield Case(when, (scores(), *one(1, 0, 2, 4), 3.0, slopes(2), starts(3)))

    for when, (*sizes, cap) in entries(SIZES):
        indices, H, B = _grid(*sizes), sizes[1], sizes[0]
        yield Case(when, (scores(*sizes), *indices, cap, slopes(H), starts(B)))

    when = "the keys come after the queries, too"
    inputs = scores(2, 3, 2, 9), *_grid(2, 3, 2, 9), 2.0
    yield Case(when, (*inputs, slopes(3), starts(2) - 2))

    when = "the scores are far above the cap"
    inputs = 13 * scores(1, 2, 3, 3), *_grid(1, 2, 3, 3), 1.5
    yield Case(when, (*inputs, slopes(2), starts(1)))

    when = "queries and keys are thousands of tokens apart"
    inputs = scores(*size), *_grid(*size), 2.0
    yield Case(when, (*inputs, slopes(2), starts(2) + 4096))
    when = "queries and keys are a hundred thousand tokens apart"
    inputs = scores(*size), *_grid(*size), 2.0
    yield Case(when, (*inputs, slopes(2), starts(2) + 100_000))

    when = "the indices are int32"
    small = (x.int() for x in _grid(*size))
    yield Case(when, (scores(*size), *small, 2.0, slopes(2), starts(2).int()))


def _falls(case: Case, out: Tensor) -> bool:
    score, cap = case.args[0], case.args[5]
    return bool((out <= cap * torch.tanh(score / cap) + 1e-4).all())


exercise = Exercise(
    id="flex-score_mod",
    points=2,
    reference=_reference,
    cases=_cases,
    also=(
        views(),
        gradients("score", "slopes"),
        dial("cap", 30.0),
    ),
    properties=(
        Property(
            "A result is above the cap.",
            lambda case, out: (out <= case.args[5] + 1e-5).all(),
        ),
        Property(
            "Somewhere distance makes a score higher: it should only lower "
            "it, before the query and after it.",
            _falls,
        ),
    ),
    breaks={
        "position 0": lambda c: argument(c, 7, "start").any(),
        "S = 1": lambda c: c.args[0].dim() and c.args[0].shape[-1] > 1,
        "H = 1": lambda c: len(c.args[6]) > 1,
        "L = S": lambda c: (
            c.args[0].dim() and c.args[0].shape[-2] != c.args[0].shape[-1]
        ),
        "cap = 50": lambda c: c.args[5] < 5,
        "weight = 1": lambda c: (c.args[6] != 1).all(),
        "contiguous strides": is_view,
    },
)
