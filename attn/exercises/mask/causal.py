"""Cases, properties and correct variants of ``mask-causal``."""

from collections.abc import Iterator

import numpy as np
import torch
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


@exercise.equivalent("tril of ones")
def _tril(q_len, kv_len, q_offset=0):
    return torch.ones(q_len, kv_len, dtype=torch.bool).tril(q_offset)


@exercise.equivalent("not triu")
def _not_triu(q_len, kv_len, q_offset=0):
    return torch.triu(torch.ones(q_len, kv_len), diagonal=q_offset + 1) == 0


@exercise.equivalent("loops")
def _loops(q_len, kv_len, q_offset=0):
    mask = torch.zeros(q_len, kv_len, dtype=torch.bool)
    for i in range(q_len):
        for j in range(kv_len):
            mask[i, j] = j <= i + q_offset
    return mask


@exercise.equivalent("numpy")
def _numpy(q_len, kv_len, q_offset=0):
    return torch.from_numpy(np.tri(q_len, kv_len, q_offset, dtype=bool))


@exercise.equivalent("distance between key and query")
def _distance(q_len, kv_len, q_offset=0):
    keys, queries = torch.arange(kv_len), torch.arange(q_len)
    return (keys.unsqueeze(0) - queries.unsqueeze(1)).le(q_offset)


@exercise.equivalent("a list of rows")
def _rows(q_len, kv_len, q_offset=0):
    seen = [min(max(i + q_offset + 1, 0), kv_len) for i in range(q_len)]
    return torch.tensor([[True] * n + [False] * (kv_len - n) for n in seen])


@exercise.equivalent("where the bias is 0")
def _from_bias(q_len, kv_len, q_offset=0):
    bias = torch.full((q_len, kv_len), -torch.inf)
    return torch.triu(bias, diagonal=q_offset + 1) == 0


@exercise.equivalent("counting with cumsum")
def _counting(q_len, kv_len, q_offset=0):
    keys = torch.ones(q_len, kv_len).cumsum(1) - 1
    queries = torch.ones(q_len, kv_len).cumsum(0) - 1 + q_offset
    return torch.logical_not(keys > queries)


@exercise.equivalent("vmap over positions")
def _vmap(q_len, kv_len, q_offset=0):
    keys = torch.arange(kv_len)
    row = torch.vmap(lambda position: keys <= position)
    return row(torch.arange(q_offset, q_offset + q_len))


@exercise.equivalent("tril_indices")
def _indices(q_len, kv_len, q_offset=0):
    mask = torch.zeros(q_len, kv_len, dtype=torch.bool)
    rows, columns = torch.tril_indices(q_len, kv_len, q_offset)
    mask[rows, columns] = True
    return mask


@exercise.equivalent("a distance clamped to 0 and 1")
def _clamped(q_len, kv_len, q_offset=0):
    i = torch.arange(float(q_len)).view(-1, 1)
    j = torch.arange(float(kv_len)).view(1, -1)
    return (i - j + q_offset + 1).clamp(0, 1).to(torch.bool)
