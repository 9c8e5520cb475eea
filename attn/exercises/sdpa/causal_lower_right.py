"""Cases, properties and correct variants of ``sdpa-causal_lower_right``."""

from collections.abc import Iterator

import torch
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


@exercise.equivalent("positions, compared")
def _positions(q_len, kv_len):
    rows = torch.arange(kv_len - q_len, kv_len)
    return torch.arange(kv_len)[None, :] <= rows[:, None]


@exercise.equivalent("the last rows of a square")
def _last_rows(q_len, kv_len):
    size = max(q_len, kv_len)
    square = torch.tril(torch.ones(size, size, dtype=torch.bool))
    return square[size - q_len :, size - kv_len :]


@exercise.equivalent("triu, rotated by 180 degrees")
def _flipped(q_len, kv_len):
    upper = torch.ones(q_len, kv_len).triu().flip(0, 1)
    return upper > 0


@exercise.equivalent("Python lists")
def _lists(q_len, kv_len):
    return torch.tensor(
        [
            [j - kv_len <= i - q_len for j in range(kv_len)]
            for i in range(q_len)
        ]
    )


@exercise.equivalent("what comes after, negated")
def _negated(q_len, kv_len):
    after = torch.full((q_len, kv_len), True).triu(kv_len - q_len + 1)
    return torch.logical_not(after)


@exercise.equivalent("row by row")
def _rows(q_len, kv_len):
    mask = torch.zeros(q_len, kv_len, dtype=torch.bool)
    for i in range(q_len):
        mask[i, : max(0, kv_len - q_len + i + 1)] = True
    return mask


@exercise.equivalent("all but the future")
def _all_but(q_len, kv_len):
    whole = torch.ones(q_len, kv_len, dtype=torch.bool)
    return whole ^ whole.triu(kv_len - q_len + 1)


@exercise.equivalent("a mesh of positions")
def _mesh(q_len, kv_len):
    i, j = torch.arange(q_len) + kv_len - q_len, torch.arange(kv_len)
    return torch.ge(*torch.meshgrid(i, j, indexing="ij"))
