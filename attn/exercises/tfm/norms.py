"""Cases, conditions and claims that the two norms of chapter 9 share."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Property
from attn.exercises.symmetry import all_sizes_differ, is_view

SHAPES = {
    "weight is not 1": [(3, 8), (2, 4, 5), (6,)],
    "axes have the same length": [(4, 4), (3, 3, 3), (2, 2)],
}
ALSO = views(), gradients(), ones("...")
BREAKS: dict[str, Callable[[Case], object]] = {
    "L = S": lambda c: all_sizes_differ(c) and c.args[0].dim() > 1,
    "weight = 1": lambda c: len(c.args[1].unique()) > 1,
    "contiguous strides": is_view,
    "cap = 50": lambda c: "eps" in c.kwargs,
}


def cases(
    g: Draw, weights: Callable[[int, bool], tuple[Tensor, ...]], level: float
) -> Iterator[Case]:
    """Draw the cases of either norm.

    Args:
        g: draws the elements.
        weights: makes the parameters of so many features: drawn, or those
            that change nothing.
        level: the spread of the tokens' means.
    """

    def case(when: str, x: Tensor, drawn: bool = False, **more: float) -> Case:
        return Case(when, (x, *weights(x.shape[-1], drawn)), more)

    when = "there is one token, and weight is 1"
    yield case(when, g.randn(8))
    yield case(when, 3 * g.randn(1, 5) + level)

    when = "there are several tokens"
    for shape in ((4, 6), (3, 5), (2, 3, 7), (2, 5, 3, 4)):
        sizes = torch.rand(*shape[:-1], 1, generator=g) * 8 + 0.5
        means = level * g.randn(*shape[:-1], 1)
        yield case(when, g.randn(*shape) * sizes + means)

    for when, shape in entries(SHAPES):
        yield case(when, 2 * g.randn(*shape) + 1, drawn=True)

    when = "eps counts"
    yield case(when, 3e-4 * g.randn(3, 6))
    yield case(when, 3e-4 * g.randn(3, 5), eps=1e-8)
    yield case(when, g.randn(2, 5), eps=0.5)
    yield case(when, 0.1 * g.randn(2, 7), eps=1e-2)
    yield case(when, 0.3 * g.randn(3, 5), eps=0.07)

    when = "one feature of a token is far from the others"
    x = g.randn(2, 200)
    x[:, 3] += 300
    yield case(when, x)

    when = "all features of a token are the same"
    x = g.randn(3, 6)
    x[1] = level
    # What rounding leaves of the mean is divided by the root of eps alone.
    rtol = 4 * torch.finfo(torch.float32).eps * level / 1e-5**0.5
    yield replace(case(when, x), rtol=rtol)
    yield replace(case(when, x * 2, drawn=True), rtol=rtol)
    yield case(when, level * g.randn(2, 1), drawn=True)


def half_precision(
    g: Draw, sizes: list[float], *parameters: Tensor
) -> Iterator[Case]:
    """Draw tokens of these sizes in both half dtypes."""
    when = "x is in half precision"
    x = g.randn(len(sizes), len(parameters[0])) * torch.tensor(sizes)[:, None]
    for dtype in (torch.bfloat16, torch.float16):
        yield Case(when, tuple(t.to(dtype) for t in (x, *parameters)))
    when = "x is in half precision, and the parameters are float32"
    yield Case(when, (x.half(), *parameters))


def before_weight(
    holds: Callable[[Tensor, Tensor], bool],
) -> Callable[[Case, Tensor], bool]:
    """Claim something about x and its norm, before weight and bias."""

    def claim(case: Case, out: Tensor) -> bool:
        x, weight, *bias = case.args
        if out.shape != x.shape or x.dtype != torch.float32:
            return True
        return holds(x, (out - sum(bias)) / weight)

    return claim


SAME_SHAPE = Property(
    "The result has the shape of x, one number for each.",
    lambda case, out: out.shape == case.args[0].shape,
)
NOT_AMPLIFIED = Property(
    "Before weight and bias, the mean square of each token is at most 1, and "
    "here it is more: what do you divide by?",
    before_weight(lambda x, y: bool((y.square().mean(-1) < 1.02).all())),
)
