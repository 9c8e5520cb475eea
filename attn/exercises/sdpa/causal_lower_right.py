"""Cases and properties of ``sdpa-causal_lower_right``."""

from collections.abc import Iterator

from torch import Tensor

from attn import masks
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property


def causal_lower_right(q_len: int, kv_len: int) -> Tensor:
    """Return a causal mask with the queries at the last positions."""
    return masks.causal().dense(q_len, kv_len, q_offset=kv_len - q_len)[0, 0]


def _cases(g: Draw) -> Iterator[Case]:
    few, more, many = g.between(2, 4), g.between(5, 6), g.between(7, 9)
    table = {
        "there is one query: a step of decoding": [(1, more), (1, 1)],
        "there are as many queries as keys": [(few, few), (more, more)],
        "there are more keys than queries": [(2, 5), (few, many)],
        "there are more queries than keys": [(5, 2), (many, few)],
    }
    for when, lengths in entries(table):
        yield Case(when, lengths)


exercise = Exercise(
    id="sdpa-causal_lower_right",
    points=1,
    reference=causal_lower_right,
    cases=_cases,
    properties=(
        Property(
            "The mask should have shape (L, S): one row per query.",
            lambda case, out: (
                isinstance(out, Tensor) and tuple(out.shape) == case.args
            ),
        ),
        Property(
            "The last query is the last token: its row must be all True.",
            lambda case, out: out.dim() != 2 or bool(out[-1].all()),
        ),
    ),
    breaks={
        "S = 1": lambda c: c.args[1] > 1,
        "L = S": lambda c: c.args[0] != c.args[1],
    },
)
