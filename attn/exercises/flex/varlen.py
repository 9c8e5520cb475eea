"""Cases and properties of ``flex-varlen``."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import functional
from attn.exercises.conditions import gradients, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def _reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    is_causal: bool = False,
) -> Tensor:
    outs = []
    for n in range(len(cu_seq_q) - 1):
        rows = slice(int(cu_seq_q[n]), int(cu_seq_q[n + 1]))
        columns = slice(int(cu_seq_k[n]), int(cu_seq_k[n + 1]))
        q, k, v = (
            x.transpose(0, 1)
            for x in (query[rows], key[columns], value[columns])
        )
        out = functional.scaled_dot_product_attention(
            q, k, v, is_causal=is_causal, q_offset=k.shape[1] - q.shape[1]
        )
        outs.append(out.transpose(0, 1))
    return torch.cat(outs)


def _borders(lengths: list[int]) -> Tensor:
    return F.pad(torch.tensor(lengths).cumsum(0), (1, 0)).int()


LENGTHS = {  # of the queries, and H
    "there is one sequence": [([3], 2), ([5], 1), ([4], 4), ([1], 1)],
    "there are several sequences": [([3, 4], 3), ([1, 4, 2], 3)],
    "axes have the same length": [([2, 2, 2], 2), ([3], 3)],
}
BOTH = {  # of queries and keys, and D, Dv
    "values are wider than keys": [([2, 3], [2, 3], 4, 6)],
    "sequences have more keys than queries, or fewer": [
        ([2, 1, 3], [3, 5, 2], 4, 4),
        ([3, 2], [1, 4], 4, 5),
        ([2, 2, 2], [5, 1, 3], 4, 4),
    ],
    "some sequences have no queries": [([2, 0, 3], [3, 2, 3], 4, 4)],
    "some sequences have no keys": [
        ([2, 3, 1], [3, 0, 2], 4, 4),
        ([2, 3, 1], [3, 0, 2], 4, 6),
    ],
}
CAUSAL = {  # of queries and keys
    "is_causal is True, with as many keys as queries": [
        ([4], [4]),
        ([1, 4, 2], [1, 4, 2]),
    ],
    "is_causal is True, with more keys than queries": [
        ([2, 1, 3], [4, 5, 3]),
        ([2, 2], [3, 6]),
    ],
    "is_causal is True, with fewer keys than queries": [
        ([4, 2], [2, 3]),
        ([2, 5], [2, 1]),
    ],
    "some sequences have no queries": [([0, 2, 0], [2, 3, 0])],
    "some sequences have no keys": [([2, 2], [0, 2])],
}


def _cases(g: Draw) -> Iterator[Case]:
    def packed(
        q_lens: list[int],
        k_lens: list[int],
        D: int = 4,
        Dv: int = 4,
        H: int = 2,
    ) -> tuple[Tensor, ...]:
        T, Tk = sum(q_lens), sum(k_lens)
        qkv = g.randn(T, H, D), g.randn(Tk, H, D), g.randn(Tk, H, Dv)
        return *qkv, _borders(q_lens), _borders(k_lens)

    for when, (lengths, H) in entries(LENGTHS):
        yield Case(when, packed(lengths, lengths, H=H))
    for when, sizes in entries(BOTH):
        yield Case(when, packed(*sizes))
    for when, both in entries(CAUSAL):
        yield Case(when, (*packed(*both), True))

    when = "is_causal is True, with more keys than queries"
    yield Case(when, packed([2, 2], [3, 6], H=1), {"is_causal": True})

    when = "the scores are large"
    q, k, *rest = packed([3, 4], [3, 4])
    yield Case(when, (30 * q, 30 * k, *rest))
    yield Case(when, (-30 * q, 30 * k.abs(), *rest, True))

    when = "values of another sequence are huge"
    q, k, v, *rest = packed([3, 3, 3], [3, 3, 3])
    v[3:6] *= 1e6
    yield Case(when, (q, k, v, *rest))
    yield Case(when, (q, k, v, *rest, True))

    when = "the borders are int64"
    *qkv, cu_q, cu_k = packed([2, 3], [3, 4])
    yield Case(when, (*qkv, cu_q.long(), cu_k.long()))

    when = "memory is measured, with room for a sequence's own scores"
    # 24 sequences of 8: 24 * 64 scores in their blocks, 192 ** 2 in all.
    many = packed([8] * 24, [8] * 24)
    yield Case(when, many, max_live=2 * 8000)
    yield Case(when, (*many, True), max_live=2 * 8000)
    one_long = [1] * 40 + [30]  # padded: 41 * 30 ** 2 scores
    yield Case(when, packed(one_long, one_long), max_live=2 * 8000)


def _is_alone(case: Case, out: Tensor) -> bool:
    """The first sequence's result does not depend on the others."""
    q, k, v, cu_q, cu_k, *causal = case.args
    if len(cu_q) < 3:
        return True
    q_end, k_end = int(cu_q[1]), int(cu_k[1])
    alone = _reference(
        q[:q_end],
        k[:k_end],
        v[:k_end],
        cu_q[:2],
        cu_k[:2],
        *causal,
        **case.kwargs,
    )
    return torch.allclose(out[:q_end], alone.to(out.dtype), atol=1e-4)


exercise = Exercise(
    id="flex-varlen",
    points=3,
    reference=_reference,
    cases=_cases,
    also=(views(), gradients("query", "key", "value")),
    properties=(
        Property(
            "The first sequence, computed alone, gives another result: what "
            "does it see of the others?",
            _is_alone,
        ),
    ),
    breaks={
        "position 0": lambda c: len(c.args[3]) > 2,
        "S = 1": lambda c: c.args[1].shape[0] > 1,
        "H = 1": lambda c: c.args[0].shape[1] > 1,
        "L = S": lambda c: not torch.equal(c.args[3], c.args[4]),
        "contiguous strides": is_view,
    },
)
