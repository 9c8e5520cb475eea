"""Cases and properties of ``rope-frequencies``."""

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import argument
from attn.positions import rope_frequencies


def frequencies(head_dim: int, base: float = 10000.0) -> Tensor:
    """Return the frequencies alone: the reference."""
    return rope_frequencies(head_dim, base).inv_freq


def _cases(g: Generator) -> Iterator[Case]:
    def a_base() -> float:
        return float(torch.randint(50, 5000, (1,), generator=g))

    when = "there is one pair"
    yield Case(when, (2,))
    yield Case(when, (2, a_base()))

    when = "there are two pairs"
    yield Case(when, (4,))

    when = "there are many pairs"
    yield Case(when, (8,))
    yield Case(when, (64,))
    yield Case(when, (10,))

    when = "base is given"
    yield Case(when, (8, 100.0))
    yield Case(when, (128,), {"base": 500000.0})
    yield Case(when, (12, a_base()))
    yield Case(when, (6, 7.0))


def _one_for_each_pair(case: Case, out: object) -> bool:
    want = (case.args[0] // 2,)
    return isinstance(out, Tensor) and tuple(out.shape) == want


def _first_is_one(case: Case, out: Tensor) -> bool:
    return abs(float(out[0]) - 1) < 1e-6


exercise = Exercise(
    id="rope-frequencies",
    points=1,
    reference=frequencies,
    cases=_cases,
    properties=(
        Property(
            "There should be one element for each pair: D / 2 of them.",
            _one_for_each_pair,
        ),
        Property(
            "Pair 0 rotates by base ** 0 = 1 radian a token, whatever the "
            "base.",
            _first_is_one,
        ),
    ),
    breaks={
        "H = 1": lambda c: c.args[0] > 2,
        "weight = 1": lambda c: argument(c, 1, "base") not in (None, 10000.0),
    },
)
