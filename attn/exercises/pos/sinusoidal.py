"""Cases and properties of ``pos-sinusoidal``."""

from collections.abc import Iterator

from torch import Tensor

from attn import positions
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import argument


def sinusoidal(seq_len: int, dim: int, base: float = 10000.0) -> Tensor:
    """Return the table of ``attn``: the reference."""
    return positions.sinusoidal(seq_len, dim, base)


SIZES = {  # seq_len, dim
    "there is one position, 0": [(1, 2), (1, 6)],
    "there is one pair": [(5, 2)],
    "there are several pairs": [(4, 4), (7, 8), (3, 10)],
    # above 256, bfloat16 skips integers
    "there are many positions and pairs": [(40, 16), (100, 32), (300, 4)],
    "base is given": [(9, 8, 100.0)],
    "dim is odd, and a sine comes last": [(4, 1), (6, 7), (1, 1)],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, args in entries(SIZES):
        yield Case(when, args)
    base = g.between(20, 2999) + 0.25
    yield Case("base is given", (20, 12, base))
    yield Case("base is given", (12, 6), {"base": base / 2})
    yield Case("base is given", (15, 10, 2.5 * base))
    yield Case("dim is odd, and base is given", (11, 9, base))


def _right_shape(case: Case, out: object) -> bool:
    return isinstance(out, Tensor) and tuple(out.shape) == case.args[:2]


def _starts_as_it_must(case: Case, out: Tensor) -> bool:
    if not _right_shape(case, out):
        return True
    row = out[0].abs()
    return bool((row[0::2] < 1e-6).all() and (row[1::2] > 1 - 1e-6).all())


exercise = Exercise(
    id="pos-sinusoidal",
    points=2,
    reference=sinusoidal,
    cases=_cases,
    properties=(
        Property(
            "There should be a row for each position and a column for each "
            "of the dim features.",
            _right_shape,
        ),
        Property(
            "Position 0 has the angle 0 in every pair: 0, 1, 0, 1, …",
            _starts_as_it_must,
        ),
    ),
    breaks={
        "position 0": lambda c: c.args[0] > 1,
        "H = 1": lambda c: c.args[1] > 2,
        "weight = 1": lambda c: argument(c, 2, "base") not in (None, 10000.0),
    },
)
