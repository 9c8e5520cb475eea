"""Cases, properties and correct variants of ``tfm-layer_norm``."""

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


@exercise.equivalent("var_mean, without Bessel's correction")
def _var_mean(x, weight, bias, eps=1e-5):
    variance, mean = torch.var_mean(x.float(), -1, correction=0, keepdim=True)
    out = (x.float() - mean) / (variance + eps).sqrt()
    return (out * weight.float() + bias.float()).to(x.dtype)


@exercise.equivalent("token by token")
def _tokens(x, weight, bias, eps=1e-5):
    rows = []
    for token in x.float().reshape(-1, x.shape[-1]):
        centred = token - token.sum() / len(token)
        size = (centred @ centred / len(token) + eps) ** 0.5
        rows.append(torch.addcmul(bias.float(), centred / size, weight))
    return torch.stack(rows).view(x.shape).to(x.dtype)


@exercise.equivalent("a matrix that subtracts the mean, in float64")
def _matrix(x, weight, bias, eps=1e-5):
    E = x.shape[-1]
    centre = torch.eye(E, dtype=torch.float64) - 1 / E
    wide = x.double() @ centre
    size = torch.linalg.vector_norm(wide, dim=-1, keepdim=True) / E**0.5
    return (
        wide / torch.hypot(size, size.new_tensor(eps**0.5)) * weight + bias
    ).to(x.dtype)


@exercise.equivalent("std, then squared again")
def _std(x, weight, bias, eps=1e-5):
    wide = x.to(torch.float32)
    centred = wide.sub(wide.mean(dim=-1, keepdim=True))
    scale = centred.pow(2).mean(-1, True).add(eps).pow(-0.5)
    out = centred.mul(scale).mul(weight).add(bias)
    return out.type_as(x)


@exercise.equivalent("einsum for both moments")
def _einsum(x, weight, bias, eps=1e-5):
    wide, E = x.float(), x.shape[-1]
    mean = torch.einsum("...e->...", wide) / E
    centred = wide - mean[..., None]
    variance = torch.einsum("...e,...e->...", centred, centred) / E
    out = centred * (1 / torch.sqrt(variance + eps))[..., None]
    return (weight * out + bias).to(x.dtype)
