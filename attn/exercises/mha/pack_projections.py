"""Cases and properties of ``mha-pack_projections``."""

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
