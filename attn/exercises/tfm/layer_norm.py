"""Cases and properties of ``tfm-layer_norm``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.tfm import norms
from attn.nn import LayerNorm


def _reference(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5
) -> Tensor:
    """Use ``attn``'s module, with these parameters."""
    norm = LayerNorm(x.shape[-1], eps)
    given = {"weight": weight, "bias": bias}
    return torch.func.functional_call(norm, given, (x,))


def _cases(g: Draw) -> Iterator[Case]:
    def weights(E: int, drawn: bool) -> tuple[Tensor, ...]:
        if drawn:
            return g.randn(E) + 2, 3 * g.randn(E)
        return torch.ones(E), torch.zeros(E)

    yield from norms.cases(g, weights, level=5.0)

    when = "the mean of a token is large"
    offsets = torch.tensor([16384.0, -32768.0, 8192.0])[:, None]
    small = torch.randint(-8, 9, (3, 16), generator=g)
    yield Case(when, (small + offsets, *weights(16, False)))

    when = "x is in half precision, and the mean of a token is large"
    for dtype, level in ((torch.float16, 1.0), (torch.bfloat16, 0.125)):
        x = (small + level * offsets / 16).to(dtype)
        yield Case(when, (x, *(t.to(dtype) for t in weights(16, False))))

    when = "x is in half precision, and bias takes away most of the rest"
    x = 32.0 * small[1:2]  # exact in every dtype
    centred = x[0] - x.mean()
    normed = centred / centred.square().mean().sqrt()
    weight = g.randn(16) + 2
    bias = 0.01 * g.randn(16) - normed * weight
    for dtype in (torch.bfloat16, torch.float16):
        yield Case(when, tuple(t.to(dtype) for t in (x, weight, bias)))
    yield Case(when, (x.half(), weight, bias))

    sizes = [1.0, 400.0, 4000.0]
    yield from norms.half_precision(g, sizes, *weights(8, True))


exercise = Exercise(
    id="tfm-layer_norm",
    points=2,
    reference=_reference,
    cases=_cases,
    also=norms.ALSO,
    forbids=("layer_norm",),
    properties=(
        norms.SAME_SHAPE,
        Property(
            "Before weight and bias, the features of each token have mean 0, "
            "and these do not: along which axis is your mean?",
            norms.before_weight(
                lambda x, y: bool((y.mean(-1).abs() < 0.02).all())
            ),
        ),
        norms.NOT_AMPLIFIED,
    ),
    breaks=norms.BREAKS,
)
