"""Exercise ``mha-pack_projections``: three products in one."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn.exercises.spec import Case, Exercise, Property


def pack_projections(
    q: Tensor, k: Tensor, v: Tensor, num_heads: int | None = None
) -> Tensor:
    """The reference: row after row, as the task says it."""
    if num_heads is None:
        return torch.cat([q, k, v])
    size = len(q) // num_heads
    rows = [
        part[h * size + i]
        for h in range(num_heads)
        for part in (q, k, v)
        for i in range(size)
    ]
    return torch.stack(rows)


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    def three(*shape: int) -> tuple[Tensor, Tensor, Tensor]:
        return randn(*shape), randn(*shape), randn(*shape)

    stage = "num_heads is not given"
    yield Case(stage, three(6, 4))
    yield Case(stage, three(4, 4))
    yield Case(stage, three(3, 7))

    stage = "num_heads is not given and the three differ in height"
    yield Case(stage, (randn(8, 6), randn(4, 6), randn(2, 6)))
    yield Case(stage, (randn(4, 4), randn(2, 4), randn(2, 4)))

    stage = "num_heads is not given and they are biases"
    yield Case(stage, three(6))

    stage = "num_heads is 1"
    yield Case(stage, three(6, 4), {"num_heads": 1})

    stage = "num_heads is given"
    yield Case(stage, three(12, 5), {"num_heads": 2})
    yield Case(stage, three(12, 7), {"num_heads": 4})
    yield Case(stage, three(6, 6), {"num_heads": 2})
    yield Case(stage, three(9, 9), {"num_heads": 3})

    stage = "there are as many heads as rows"
    yield Case(stage, three(5, 3), {"num_heads": 5})

    stage = "num_heads is given and they are biases"
    yield Case(stage, three(12), {"num_heads": 3})
    yield Case(stage, three(4), {"num_heads": 2})

    stage = "the weights are views of other tensors"
    yield Case(stage, tuple(x.mT for x in three(5, 8)), {"num_heads": 2})
    yield Case(stage, tuple(x.mT for x in three(5, 6)))

    stage = "gradients flow back"
    yield Case(stage, three(6, 4), grad=True)
    yield Case(stage, three(6, 4), {"num_heads": 3}, grad=True)


def _all_rows(case: Case, out: object) -> bool:
    q, k, v = case.args
    want = (len(q) + len(k) + len(v), *q.shape[1:])
    return isinstance(out, Tensor) and tuple(out.shape) == want


exercise = Exercise(
    id="mha-pack_projections",
    points=2,
    reference=pack_projections,
    cases=_cases,
    hints=(
        "nn.Linear computes x @ weight.T, so a row of weight makes one "
        "output feature. Packing is only a matter of the order of the rows.",
        "Without num_heads it is one torch.cat along axis 0. With it, cut "
        "each of the three into (H, D, ...) first.",
        "Put the three side by side within each head, (H, 3 * D, ...), with "
        "a cat along axis 1; then flatten the first two axes. A bias has no "
        "axis behind the rows, so never name the last axis.",
    ),
    properties=(
        Property(
            "The result should have all rows of q, k and v, as wide as "
            "they are: nn.Linear keeps output features in rows.",
            _all_rows,
        ),
    ),
)


def _heads(x: Tensor, num_heads: int) -> Tensor:
    return x.unflatten(0, (num_heads, -1))  # (H, D, ...)


@exercise.misconception("num_heads is ignored", exposed_by="num_heads above 1")
def never_by_head(q, k, v, num_heads=None):
    """All rows of q, then k, then v, in either case. A GPT-NeoX checkpoint
    packed like this loads without an error: head 0 gets q, k and v that are
    all pieces of q. What does num_heads ask for?"""
    return torch.cat([q, k, v])


@exercise.misconception(
    "the rows alternate one by one", exposed_by="D above 1"
)
def row_by_row(q, k, v, num_heads=None):
    """q's first row, k's first row, v's first row, q's second … The unit is
    a head, D rows at a time, and not a row. How many rows of q stand
    together before k has its turn?"""
    if num_heads is None:
        return torch.cat([q, k, v])
    return torch.stack([q, k, v], 1).flatten(0, 1)


@exercise.misconception(
    "the heads are cut as (D, H)", exposed_by="H and D that differ"
)
def cut_across(q, k, v, num_heads=None):
    """Head h gets rows h, h + H, h + 2H, … instead of D neighbours. Which
    rows of a projection belong to head 0?"""
    if num_heads is None:
        return torch.cat([q, k, v])
    parts = [
        x.unflatten(0, (-1, num_heads)).transpose(0, 1) for x in (q, k, v)
    ]
    return torch.cat(parts, 1).flatten(0, 1)


@exercise.misconception(
    "cut into num_heads rows, not into num_heads heads",
    exposed_by="H and D that differ",
)
def pieces_of_h(q, k, v, num_heads=None):
    """The rows are cut into pieces of num_heads rows: there are D pieces of
    H instead of H pieces of D. Which of (H, -1) and (-1, H) makes H
    heads?"""
    if num_heads is None:
        return torch.cat([q, k, v])
    parts = [x.unflatten(0, (-1, num_heads)) for x in (q, k, v)]
    return torch.cat(parts, 1).flatten(0, 1)


@exercise.misconception(
    "put side by side, along the last axis", exposed_by="weights of two axes"
)
def side_by_side(q, k, v, num_heads=None):
    """dim=-1 makes the rows longer: (rows, 3 * E), a map for an input three
    times as wide. Output features are rows in nn.Linear. (GPT-2's Conv1D
    keeps them in columns, and there this would be right.) Which axis has
    the output features?"""
    return torch.cat([q, k, v], -1)


@exercise.misconception(
    "stacked on a new axis", exposed_by="any weights: one axis more"
)
def stacked(q, k, v, num_heads=None):
    """torch.stack adds an axis, (3, rows, E), and needs equal heights. One
    nn.Linear has a weight of two axes. Which function glues along an axis
    that is there already?"""
    return torch.stack([q, k, v])


@exercise.misconception(
    "in the order key, query, value", exposed_by="any weights"
)
def keys_first(q, k, v, num_heads=None):
    """Whoever cuts the result expects the queries first. With the order
    turned, scores are k · q instead of q · k: with a mask, that is another
    model. In which order does the task name them?"""
    if num_heads is None:
        return torch.cat([k, q, v])
    return torch.cat([_heads(x, num_heads) for x in (k, q, v)], 1).flatten(
        0, 1
    )


@exercise.misconception(
    "in the order value, key, query", exposed_by="any weights"
)
def values_first(q, k, v, num_heads=None):
    """Whoever cuts the result expects the queries first, and gets the
    values. In which order does the task name them?"""
    if num_heads is None:
        return torch.cat([v, k, q])
    return torch.cat([_heads(x, num_heads) for x in (v, k, q)], 1).flatten(
        0, 1
    )


@exercise.misconception(
    "always head by head", exposed_by="num_heads that is not given"
)
def always_by_head(q, k, v, num_heads=None):
    """Without num_heads the three blocks stay whole; here they alternate
    row by row, as if every row were a head. What does None stand for?"""
    heads = len(q) if num_heads is None else num_heads
    return torch.cat([_heads(x, heads) for x in (q, k, v)], 1).flatten(0, 1)


@exercise.misconception(
    "blocks of heads: all heads of q, then of k, then of v",
    exposed_by="num_heads above 1, three axes",
)
def heads_kept(q, k, v, num_heads=None):
    """The heads are cut, put in a row and kept as an axis: (3 * H, D, E).
    The rows of one nn.Linear are one axis, and with num_heads the three
    take turns within a head. What shape does the Returns line ask for?"""
    if num_heads is None:
        return torch.cat([q, k, v])
    return torch.cat([_heads(x, num_heads) for x in (q, k, v)])


@exercise.misconception(
    "the result is transposed", exposed_by="weights of two axes"
)
def transposed(q, k, v, num_heads=None):
    """(E, 3 * H * D) is what you multiply x with by hand; nn.Linear stores
    the transpose, (out, in). Which shape does nn.Linear(E, 3 * E).weight
    have?"""
    out = pack_projections(q, k, v, num_heads)
    return out.mT if out.dim() == 2 else out


@exercise.misconception(
    "a bias has no last axis to lean on", exposed_by="biases"
)
def weights_only(q, k, v, num_heads=None):
    """view(H, D, E) needs the width E, and a bias has none: q.shape[1]
    raises an IndexError. How can you cut the first axis and leave whatever
    stands behind it?"""
    if num_heads is None:
        return torch.cat([q, k, v])
    width = q.shape[1]
    parts = [x.reshape(num_heads, -1, width) for x in (q, k, v)]
    return torch.cat(parts, 1).reshape(-1, width)


@exercise.equivalent("a loop over the heads")
def _loop(q, k, v, num_heads=None):
    if num_heads is None:
        return torch.concatenate((q, k, v), dim=0)
    size = q.shape[0] // num_heads
    rows = []
    for h in range(num_heads):
        for part in (q, k, v):
            rows.append(part[h * size : (h + 1) * size])
    return torch.cat(rows)


@exercise.equivalent("stack behind the heads, then flatten")
def _stack(q, k, v, num_heads=None):
    if num_heads is None:
        return (
            torch.vstack([q, k, v]) if q.dim() > 1 else torch.hstack([q, k, v])
        )
    heads = [x.reshape(num_heads, -1, *x.shape[1:]) for x in (q, k, v)]
    return torch.stack(heads, 1).flatten(0, 2)


@exercise.equivalent("the cat, reordered by an index")
def _index(q, k, v, num_heads=None):
    whole = torch.cat([q, k, v])
    if num_heads is None:
        return whole
    order = torch.arange(len(whole)).view(3, num_heads, -1).transpose(0, 1)
    return whole[order.flatten()]


@exercise.equivalent("filled in place")
def _filled(q, k, v, num_heads=None):
    rows = len(q) + len(k) + len(v)
    out = q.new_empty(rows, *q.shape[1:])
    if num_heads is None:
        out[: len(q)], out[len(q) : len(q) + len(k)] = q, k
        out[len(q) + len(k) :] = v
        return out
    cut = out.view(num_heads, 3, -1, *q.shape[1:])
    for i, x in enumerate((q, k, v)):
        cut[:, i] = x.reshape(num_heads, -1, *x.shape[1:])
    return out


@exercise.equivalent("chunks, zipped")
def _chunks(q, k, v, num_heads=None):
    parts = [(q,), (k,), (v,)]
    if num_heads:
        parts = [x.chunk(num_heads) for x in (q, k, v)]
    return torch.cat([x for head in zip(*parts, strict=True) for x in head])
