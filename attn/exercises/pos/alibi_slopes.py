"""Cases and properties of ``pos-alibi_slopes``."""

from collections.abc import Iterator

from torch import Tensor

from attn import positions
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property


def alibi_slopes(num_heads: int) -> Tensor:
    """Return the slopes of ``attn``: the reference."""
    return positions.alibi_slopes(num_heads)


HEADS = {
    "there are 8 heads": [8],
    "the number of heads is another power of two": [2, 4, 16, 32, 1],
    "the number of heads is one more than a power of two": [3, 5, 9],
    "the number of heads is no power of two": [6, 7, 12, 14, 20, 24, 31, 40],
    "there are many heads: Bloom has 112": [112, 256],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, num_heads in entries(HEADS):
        yield Case(when, (num_heads,))
    yield Case("there are many heads", (g.between(65, 126),))


exercise = Exercise(
    id="pos-alibi_slopes",
    points=2,
    reference=alibi_slopes,
    cases=_cases,
    properties=(
        Property(
            "There should be one slope for each head.",
            lambda case, out: (
                isinstance(out, Tensor) and tuple(out.shape) == case.args
            ),
        ),
        Property(
            "A slope is positive, and less than 1.",
            lambda case, out: (out > 0).all() and (out <= 1).all(),
        ),
    ),
    breaks={
        "H = 1": lambda c: c.args[0] > 1,
        "L = S": lambda c: c.args[0].bit_count() > 1,
    },
)
