"""Cases and properties of ``mask-sliding_window``."""

from collections.abc import Iterator

from torch import Tensor

from attn import masks
from attn.exercises.draw import Draw
from attn.exercises.mask.claims import IS_BOOL, no_future
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import argument


def _reference(
    q_len: int, kv_len: int, size: int, q_offset: int = 0
) -> Tensor:
    mask = masks.sliding_window(size)
    return mask.dense(q_len, kv_len, q_offset=q_offset)[0, 0]


def _cases(g: Draw) -> Iterator[Case]:
    when = "the window is longer than the text, so only the future counts"
    length = g.between(4, 6)
    yield Case(when, (length, length, length + g.between(1, 3)))

    when = "size is 1, so a token sees only itself"
    length = g.between(4, 6)
    yield Case(when, (length, length, 1))
    yield Case(when, (3, 6, 1, 2))

    when = "the window is shorter than the text"
    length = g.between(7, 9)
    yield Case(when, (length, length, g.between(2, 4)))
    yield Case(when, (5, 5, 4))

    when = "there are more keys than queries, or fewer, and both start at 0"
    q_len, size = g.between(3, 4), g.between(2, 3)
    yield Case(when, (q_len, q_len + g.between(2, 4), size))
    yield Case(when, (q_len + g.between(2, 4), q_len, size))

    when = "the queries are the last tokens (q_offset = S - L)"
    q_len, past = g.between(2, 3), g.between(5, 6)
    yield Case(when, (q_len, q_len + past, g.between(2, 3), past))
    yield Case(when, (1, past + 1, 3), {"q_offset": past})

    when = "the queries start somewhere else"
    yield Case(when, (3, 9, g.between(2, 3), 3))

    when = "q_offset is negative, or beyond the keys"
    yield Case(when, (6, 4, 2, -g.between(2, 3)))
    yield Case(when, (5, 4, 3, g.between(2, 4)))
    yield Case(when, (2, 3, 2, g.between(6, 9)))
    yield Case(when, (2, 4, 2999, 3000))
    yield Case(when, (1, 1, 1))


def _q_offset(case: Case) -> int:
    return case.kwargs.get("q_offset", (*case.args, 0)[3])


def _looks_back(case: Case, out: Tensor) -> bool:
    q_len, _, size = case.args[:3]
    past = out.tril(_q_offset(case) - 1)
    return size == 1 or q_len == 1 or bool(past.any())


exercise = Exercise(
    id="mask-sliding_window",
    points=2,
    reference=_reference,
    cases=_cases,
    properties=(
        IS_BOOL,
        no_future(_q_offset),
        Property(
            "A query sees more keys than size.",
            lambda case, out: (out.sum(-1) <= case.args[2]).all(),
        ),
        Property(
            "No query sees anything further back than itself.", _looks_back
        ),
    ),
    breaks={
        "position 0": lambda c: argument(c, 3, "q_offset"),
        "S = 1": lambda c: c.args[1] > 1,
        "L = S": lambda c: c.args[0] != c.args[1],
        "weight = 1": lambda c: 1 < argument(c, 2, "size") < c.args[1],
    },
)
