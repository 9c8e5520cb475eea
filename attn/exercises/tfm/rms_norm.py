"""Cases and properties of ``tfm-rms_norm``."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.tfm import norms
from attn.nn import RMSNorm


def _reference(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Use ``attn``'s module, with this parameter."""
    norm = RMSNorm(x.shape[-1], eps)
    return torch.func.functional_call(norm, {"weight": weight}, (x,))


def _cases(g: Draw) -> Iterator[Case]:
    def weights(E: int, drawn: bool) -> tuple[Tensor, ...]:
        return (2 * g.randn(E) + 1 if drawn else torch.ones(E),)

    yield from norms.cases(g, weights, level=0.0)

    when = "the mean of a token is not 0"
    yield Case(when, (g.randn(3, 6) + 2, *weights(6, False)))
    yield Case(when, (g.randn(2, 8) + 300, *weights(8, False)))

    sizes = [1e-4, 1.0, 400.0, 9000.0]
    yield from norms.half_precision(g, sizes, *weights(8, True))


def _direction(x: Tensor, normed: Tensor) -> bool:
    same = F.cosine_similarity(normed, x, dim=-1)
    return bool(((same > 0.999) | (x.norm(dim=-1) == 0)).all())


exercise = Exercise(
    id="tfm-rms_norm",
    points=2,
    reference=_reference,
    cases=_cases,
    also=norms.ALSO,
    forbids=("rms_norm",),
    properties=(
        norms.SAME_SHAPE,
        Property(
            "Before weight, a token keeps its direction: one number divides "
            "all its features, and nothing is subtracted. Here it does not.",
            norms.before_weight(_direction),
        ),
        norms.NOT_AMPLIFIED,
    ),
    breaks=norms.BREAKS,
)
