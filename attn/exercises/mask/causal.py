"""Cases and properties of ``mask-causal``."""

from collections.abc import Iterator

from torch import Tensor

from attn import masks
from attn.exercises.draw import Draw
from attn.exercises.mask.claims import IS_BOOL, itself, no_future
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import argument


def _reference(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    return masks.causal().dense(q_len, kv_len, q_offset=q_offset)[0, 0]


def _cases(g: Draw) -> Iterator[Case]:
    when = "there are as many queries as keys"
    size = g.between(4, 6)
    yield Case(when, (size, size))
    yield Case(when, (1, 1))

    when = "there are more keys than queries, and both start at 0"
    q_len = g.between(2, 4)
    yield Case(when, (q_len, q_len + g.between(2, 4)))
    yield Case(when, (1, g.between(4, 7)))

    when = "there are more queries than keys, and both start at 0"
    kv_len = g.between(2, 4)
    yield Case(when, (kv_len + g.between(2, 4), kv_len))

    when = "the queries are the last tokens (q_offset = S - L)"
    q_len, past = g.between(2, 3), g.between(2, 5)
    yield Case(when, (q_len, q_len + past, past))
    yield Case(when, (1, past + 1), {"q_offset": past})

    when = "the queries start somewhere else (0 < q_offset, not S - L)"
    q_len, past = g.between(2, 3), g.between(2, 3)
    yield Case(when, (q_len, q_len + past + 3, past))
    yield Case(when, (q_len + 2, q_len + 2, 1))

    when = "q_offset is larger than the number of keys"
    kv_len = g.between(2, 5)
    yield Case(when, (3, kv_len, kv_len + g.between(1, 4)))
    yield Case(when, (2, 4, 3000))

    when = "q_offset is negative, so the first queries may attend to nothing"
    kv_len = g.between(3, 6)
    yield Case(when, (kv_len + 2, kv_len, -g.between(2, 3)))
    yield Case(when, (2, 5, -g.between(3, 9)))


def _q_offset(case: Case) -> int:
    return case.kwargs.get("q_offset", (*case.args, 0)[2])


exercise = Exercise(
    id="mask-causal",
    points=1,
    reference=_reference,
    cases=_cases,
    properties=(IS_BOOL, itself(_q_offset), no_future(_q_offset)),
    breaks={
        "position 0": lambda c: argument(c, 2, "q_offset"),
        "S = 1": lambda c: c.args[1] > 1,
        "L = S": lambda c: c.args[0] != c.args[1],
    },
)
