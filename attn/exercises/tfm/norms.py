"""Cases and properties that the two norms of chapter 9 share."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attn.exercises.conditions import gradients, views
from attn.exercises.draw import Draw, each
from attn.exercises.spec import Case, Property
from attn.exercises.symmetry import all_sizes_differ, argument, is_view

SHAPES = {
    "weight is not 1": [(3, 8), (2, 4, 5), (6,)],
    "axes have the same length": [(4, 4), (3, 3, 3), (2, 2)],
}
ALSO = views(), gradients()


def cases(
    g: Draw, weights: Callable[[int, bool], tuple[Tensor, ...]], level: float
) -> Iterator[Case]:
    """Draw the cases of either norm.

    Args:
        g: draws the elements.
        weights: makes the parameters for so many features: drawn, or those
            that change nothing.
        level: factor on the means of the tokens.
    """

    def case(when: str, x: Tensor, drawn: bool = False, **more: float) -> Case:
        return Case(when, (x, *weights(x.shape[-1], drawn)), more)

    when = "there is one token, and weight is 1"
    yield case(when, g.randn(8))
    yield case(when, 3 * g.randn(1, 5) + 2 * level)

    when = "every token is normalised by itself"
    yield case(when, g.randn(4, 6))
    for shape in ((3, 5), (2, 3, 7), (2, 5, 3, 4)):
        sizes = torch.rand(*shape[:-1], 1, generator=g) * 8 + 0.5
        means = 5 * level * g.randn(*shape[:-1], 1)
        yield case(when, g.randn(*shape) * sizes + means)

    for when, shape in each(SHAPES):
        yield case(when, 2 * g.randn(*shape) + 1, drawn=True)

    when = "eps counts"
    yield case(when, 3e-4 * g.randn(3, 6))
    yield case(when, g.randn(2, 5), eps=0.5)
    yield case(when, 0.1 * g.randn(2, 7), eps=1e-2)

    when = "a token is constant, so that its variance is 0"
    x = g.randn(3, 6)
    x[1] = 2.5 * level
    yield case(when, x)
    yield case(when, x * 2, drawn=True)
    yield case(when, level * g.randn(2, 1), drawn=True)
