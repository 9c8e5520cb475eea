"""Cases, properties and correct variants of ``tfm-rms_norm``."""

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


@exercise.equivalent("the length of the token, over the root of E")
def _length(x, weight, eps=1e-6):
    wide = x.float()
    size = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    size = size / x.shape[-1] ** 0.5
    root = torch.hypot(size, torch.tensor(eps**0.5))
    return (wide / root * weight).to(x.dtype)


@exercise.equivalent("token by token")
def _tokens(x, weight, eps=1e-6):
    rows = []
    for token in x.to(torch.float32).reshape(-1, x.shape[-1]):
        root = (token.dot(token) / token.numel() + eps) ** 0.5
        rows.append(token * weight / root)
    return torch.stack(rows).reshape(x.shape).to(x.dtype)


@exercise.equivalent("in float64, the weight first")
def _double(x, weight, eps=1e-6):
    wide = x.double()
    root = wide.pow(2).mean(dim=-1, keepdim=True).add(eps).sqrt()
    return wide.mul(weight).div(root).type_as(x)


@exercise.equivalent("einsum")
def _einsum(x, weight, eps=1e-6):
    wide = x.float()
    square = torch.einsum("...e,...e->...", wide, wide) / wide.size(-1)
    scale = 1 / torch.sqrt(square + eps)
    return torch.einsum("...e,...,e->...e", wide, scale, weight.float()).to(
        x.dtype
    )


@exercise.equivalent("scaled by the largest feature first")
def _scaled(x, weight, eps=1e-6):
    wide = x.float()
    top = wide.detach().abs().amax(-1, keepdim=True).clamp(min=1e-12)
    square = (wide / top).square().mean(-1, keepdim=True)
    root = top * (square + eps / top.square()).sqrt()
    return (wide / root * weight).to(x.dtype)


@exercise.equivalent("rounded before weight, as in transformers' Llama")
def _llama(x, weight, eps=1e-6):
    wide = x.to(torch.float32)
    variance = wide.pow(2).mean(-1, keepdim=True)
    return (weight * (wide * torch.rsqrt(variance + eps)).to(x.dtype)).to(
        x.dtype
    )
