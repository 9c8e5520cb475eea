"""Cases, properties and correct variants of ``mha-pack_projections``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn.exercises.conditions import gradients, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def _reference(
    q: Tensor, k: Tensor, v: Tensor, num_heads: int | None = None
) -> Tensor:
    """Pack row after row, in the words of the task."""
    if num_heads is None:
        return torch.cat([q, k, v])
    size = len(q) // num_heads
    heads = [range(h * size, (h + 1) * size) for h in range(num_heads)]
    return torch.stack(
        [x[i] for rows in heads for x in (q, k, v) for i in rows]
    )


SHAPES = {  # of each of the three
    "num_heads is not given": [(6, 4), (3, 7)],
    "num_heads is not given and axes have the same length": [(4, 4)],
    "num_heads is not given and they are biases": [(6,)],
}
HEADS = {  # and then the shape of each
    "num_heads is 1": [(1, 6, 4)],
    "num_heads is given": [(2, 12, 5), (4, 12, 7)],
    "num_heads is given and axes have the same length": [(2, 6, 6), (3, 9, 9)],
    "there are as many heads as rows": [(5, 5, 3)],
    "num_heads is given and they are biases": [(3, 12), (2, 4)],
}


def _cases(g: Draw) -> Iterator[Case]:
    def three(*shape: int) -> tuple[Tensor, ...]:
        return tuple(g.randn(*shape) for _ in "qkv")

    for when, shape in entries(SHAPES):
        yield Case(when, three(*shape))

    when = "num_heads is not given and the three differ in height"
    for heights in ((8, 4, 2), (4, 2, 2), (2, 4, 6)):
        yield Case(when, tuple(g.randn(n, 4) for n in heights))
    when = "num_heads is not given and they are biases"
    yield Case(when, (g.randn(2), g.randn(6), g.randn(4)))

    for when, (heads, *shape) in entries(HEADS):
        yield Case(when, three(*shape), {"num_heads": heads})


exercise = Exercise(
    id="mha-pack_projections",
    points=2,
    reference=_reference,
    cases=_cases,
    also=(views(), gradients()),
    properties=(
        Property(
            "The result should have all rows of q, k and v, as wide as "
            "they are: nn.Linear keeps output features in rows.",
            lambda case, out: out.shape == torch.cat(case.args).shape,
        ),
    ),
    breaks={
        "H = 1": lambda c: c.kwargs.get("num_heads", 1) > 1,
        "L = S": lambda c: len(c.args[0]) != c.args[0].shape[-1],
        "contiguous strides": is_view,
    },
)


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
        return (torch.vstack if q.dim() > 1 else torch.hstack)([q, k, v])
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
    out = q.new_empty(len(q) + len(k) + len(v), *q.shape[1:])
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


@exercise.equivalent("rows put in their places")
def _places(q, k, v, num_heads=None):
    if num_heads is None:
        return torch.cat((q, k, v))
    size, row = len(q) // num_heads, torch.arange(len(q))
    place = row // size * 3 * size + row % size  # of the rows of q
    out = torch.zeros(3 * len(q), *q.shape[1:])
    for i, x in enumerate((q, k, v)):
        out = out.index_copy(0, place + i * size, x)
    return out


@exercise.equivalent("rows, sorted by head")
def _sorted(q, k, v, num_heads=None):
    rows = [(n, x) for part in (q, k, v) for n, x in enumerate(part)]
    if num_heads is not None:
        rows.sort(key=lambda row: row[0] // (len(q) // num_heads))
    return torch.stack([x for _, x in rows])
