"""Cases and properties of ``sdpa-causal_lower_right``."""

from collections.abc import Iterator

from torch import Generator, Tensor

from attn import masks
from attn.exercises.draw import between
from attn.exercises.spec import Case, Exercise, Property


def causal_lower_right(q_len: int, kv_len: int) -> Tensor:
    """Return a causal mask with the queries at the last positions."""
    return masks.causal().dense(q_len, kv_len, q_offset=kv_len - q_len)[0, 0]


def _cases(g: Generator) -> Iterator[Case]:
    when = "there is one query: a step of decoding"
    yield Case(when, (1, between(g, 3, 8)))
    yield Case(when, (1, 1))

    when = "there are as many queries as keys"
    length = between(g, 3, 6)
    yield Case(when, (length, length))

    when = "there are more keys than queries"
    yield Case(when, (2, 5))
    q_len = between(g, 3, 5)
    yield Case(when, (q_len, q_len + between(g, 2, 5)))

    when = "there are more queries than keys"
    yield Case(when, (5, 2))
    kv_len = between(g, 2, 4)
    yield Case(when, (kv_len + between(g, 2, 4), kv_len))


def _last_may_attend_to_all(case: Case, out: Tensor) -> bool:
    return out.dim() != 2 or bool(out[-1].all())


def _right_shape(case: Case, out: object) -> bool:
    return isinstance(out, Tensor) and tuple(out.shape) == case.args


exercise = Exercise(
    id="sdpa-causal_lower_right",
    points=1,
    reference=causal_lower_right,
    cases=_cases,
    properties=(
        Property(
            "The mask should have shape (L, S): one row per query.",
            _right_shape,
        ),
        Property(
            "The last query is the last token: its row must be all True.",
            _last_may_attend_to_all,
        ),
    ),
    breaks={
        "S = 1": lambda c: c.args[1] > 1,
        "L = S": lambda c: c.args[0] != c.args[1],
    },
)
