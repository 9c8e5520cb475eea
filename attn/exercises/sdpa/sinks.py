"""Cases and properties of ``sdpa-sinks``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import all_sizes_differ, is_view
from attn.functional import softmax


def sinks(scores: Tensor, sinks: Tensor) -> Tensor:
    """Add a column, apply the softmax, and drop the column."""
    column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
    return softmax(torch.cat([scores, column], -1))[..., :-1]


SHAPES = {
    "there are several heads, each with its sink": [
        (3, 4, 5),
        (2, 3, 4, 5),
        (2, 6, 1, 7),
    ],
    "axes have the same length": [(3, 3, 3, 3), (4, 4, 4), (2, 4, 3, 4)],
    "there are five axes": [(2, 1, 3, 4, 5)],
}


def _cases(g: Draw) -> Iterator[Case]:
    def scores(*shape: int) -> Tensor:
        return g.randn(*shape) * 2

    when = "there is one head"
    # Not far below the scores: it has to take its share to be seen.
    yield Case(when, (scores(1, 1, 5), scores(1).abs() + 1))
    yield Case(when, (scores(2, 1, 3, 4), scores(1).abs() + 1))

    for when, shape in entries(SHAPES):
        yield Case(when, (scores(*shape), scores(shape[-3])))

    when = "the sink is far below the scores, so it takes nothing"
    yield Case(when, (scores(2, 3, 5), torch.tensor([-1000.0, -500.0])))

    when = "the sink is far above the scores, so it takes everything"
    far = torch.tensor([1000.0, 300.0])
    yield Case(when, (scores(2, 3, 5), far))
    yield Case(when, (g.randn(2, 3, 5), far), grad=True)

    when = "the scores are large"
    ranks = torch.rand(2, 3, 4, generator=g).argsort(-1)  # no ties
    yield Case(when, ((ranks - 1) * 400.0, torch.tensor([7.0, 600.0])))

    near = torch.tensor([999.0, 1001.0, 1000.0])
    yield Case(when, (scores(2, 3, 4, 5) + 1000, near))
    yield Case(when, (scores(2, 3, 4, 5) - 1000, -near))

    when = "some scores are -inf"
    masked = scores(2, 3, 4, 5)
    masked[..., 3:] = masked[1, :, 2, 0] = -torch.inf
    yield Case(when, (masked, scores(3)))

    when = "a query has no key: all its scores are -inf"
    dead = scores(2, 3, 4, 5)
    dead[:, :, 1] = -torch.inf
    yield Case(when, (dead, scores(3)))

    when = "gradients flow back and a query has no key"
    dead = g.randn(2, 3, 5)
    dead[:, 1] = -torch.inf
    yield Case(when, (dead, scores(2)), grad=True)


exercise = Exercise(
    id="sdpa-sinks",
    points=2,
    reference=sinks,
    cases=_cases,
    also=(
        views(),
        gradients(when="gradients flow back to scores and sinks"),
        ones("... H", "... L", "H L", "L S"),
    ),
    properties=(
        Property(
            "The result should have the shape of the scores: the sink's "
            "own weight is thrown away.",
            lambda case, out: (
                isinstance(out, Tensor) and out.shape == case.args[0].shape
            ),
        ),
        Property(
            "With a sink, the weights of the keys sum to 1 or less.",
            lambda case, out: (out.sum(-1) <= 1.0001).all(),
        ),
    ),
    breaks={
        "S = 1": lambda c: c.args[0].shape[-1] > 1,
        "H = 1": lambda c: len(c.args[1]) > 1,
        "L = S": all_sizes_differ,
        "weight = 1": lambda c: bool((c.args[1] != 0).all()),
        "contiguous strides": is_view,
    },
)
