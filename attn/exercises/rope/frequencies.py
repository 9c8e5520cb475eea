"""Cases and properties of ``rope-frequencies``."""

from collections.abc import Iterator

from torch import Tensor

from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import argument
from attn.positions import rope_frequencies


def frequencies(head_dim: int, base: float = 10000.0) -> Tensor:
    """Return the frequencies alone: the reference."""
    return rope_frequencies(head_dim, base).inv_freq


SIZES = {  # head_dim
    "there is one pair": [(2,)],
    "there are two pairs": [(4,)],
    "there are many pairs": [(8,), (64,), (10,)],
    "base is given": [(8, 100.0), (6, 7.3), (10, 23.0), (14, 70000.0)],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, args in entries(SIZES):
        yield Case(when, args)
    for head_dim in (12, 2):
        yield Case("base is given", (head_dim, float(g.between(50, 4999))))
    yield Case("base is given", (128,), {"base": 500000.0})


def _one_for_each_pair(case: Case, out: object) -> bool:
    want = (case.args[0] // 2,)
    return isinstance(out, Tensor) and tuple(out.shape) == want


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
            lambda case, out: abs(float(out[0]) - 1) < 1e-6,
        ),
    ),
    breaks={
        "H = 1": lambda c: c.args[0] > 2,
        "weight = 1": lambda c: argument(c, 1, "base") not in (None, 10000.0),
    },
)
