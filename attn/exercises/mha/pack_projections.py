"""Cases and properties of ``mha-pack_projections``."""

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

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


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    def three(*shape: int) -> tuple[Tensor, Tensor, Tensor]:
        return randn(*shape), randn(*shape), randn(*shape)

    when = "num_heads is not given"
    yield Case(when, three(6, 4))
    yield Case(when, three(4, 4))
    yield Case(when, three(3, 7))

    when = "num_heads is not given and the three differ in height"
    yield Case(when, (randn(8, 6), randn(4, 6), randn(2, 6)))
    yield Case(when, (randn(4, 4), randn(2, 4), randn(2, 4)))
    yield Case(when, (randn(2, 5), randn(4, 5), randn(6, 5)))

    when = "num_heads is not given and they are biases"
    yield Case(when, three(6))
    yield Case(when, (randn(2), randn(6), randn(4)))

    when = "num_heads is 1"
    yield Case(when, three(6, 4), {"num_heads": 1})

    when = "num_heads is given"
    yield Case(when, three(12, 5), {"num_heads": 2})
    yield Case(when, three(12, 7), {"num_heads": 4})
    yield Case(when, three(6, 6), {"num_heads": 2})
    yield Case(when, three(9, 9), {"num_heads": 3})

    when = "there are as many heads as rows"
    yield Case(when, three(5, 3), {"num_heads": 5})

    when = "num_heads is given and they are biases"
    yield Case(when, three(12), {"num_heads": 3})
    yield Case(when, three(4), {"num_heads": 2})

    when = "the weights are views of other tensors"
    yield Case(when, tuple(x.mT for x in three(5, 8)), {"num_heads": 2})
    yield Case(when, tuple(x.mT for x in three(5, 6)))

    when = "gradients flow back"
    yield Case(when, three(6, 4), grad=True)
    yield Case(when, three(6, 4), {"num_heads": 3}, grad=True)


exercise = Exercise(
    id="mha-pack_projections",
    points=2,
    reference=_reference,
    cases=_cases,
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
