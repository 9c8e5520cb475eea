"""Cases and properties of ``pos-alibi_slopes``."""

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import positions
from attn.exercises.spec import Case, Exercise, Property


def alibi_slopes(num_heads: int) -> Tensor:
    """Return the slopes of ``attn``: the reference."""
    return positions.alibi_slopes(num_heads)


def _cases(g: Generator) -> Iterator[Case]:
    when = "there are 8 heads"
    yield Case(when, (8,))

    when = "the number of heads is another power of two"
    for heads in (2, 4, 16, 32, 1):
        yield Case(when, (heads,))

    when = "the number of heads is one more than a power of two"
    for heads in (3, 5, 9):
        yield Case(when, (heads,))

    when = "the number of heads is no power of two"
    for heads in (6, 7, 12, 14, 20, 24, 31, 40):
        yield Case(when, (heads,))

    when = "there are many heads: Bloom has 112"
    yield Case(when, (112,))
    yield Case(when, (int(torch.randint(65, 127, (1,), generator=g)),))
    yield Case(when, (256,))


def _one_a_head(case: Case, out: object) -> bool:
    return isinstance(out, Tensor) and tuple(out.shape) == case.args


def _between(case: Case, out: Tensor) -> bool:
    return bool((out > 0).all() and (out <= 1).all())


exercise = Exercise(
    id="pos-alibi_slopes",
    points=2,
    reference=alibi_slopes,
    cases=_cases,
    properties=(
        Property("There should be one slope for each head.", _one_a_head),
        Property("A slope is positive, and less than 1.", _between),
    ),
    breaks={
        "H = 1": lambda c: c.args[0] > 1,
        "L = S": lambda c: c.args[0].bit_count() > 1,
    },
)
