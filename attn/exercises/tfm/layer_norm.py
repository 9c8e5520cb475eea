"""Cases, properties and correct variants of ``tfm-layer_norm``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import all_sizes_differ, argument, is_view
from attn.nn import LayerNorm


def _reference(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5
) -> Tensor:
    """Use ``attn``'s module, with these parameters."""
    norm = LayerNorm(x.shape[-1], eps)
    given = {"weight": weight, "bias": bias}
    return torch.func.functional_call(norm, given, (x,))


def _cases(g: Draw) -> Iterator[Case]:
    def plain(when: str, x: Tensor, **more: float) -> Case:
        E = x.shape[-1]
        return Case(when, (x, torch.ones(E), torch.zeros(E)), more)

    def drawn(when: str, x: Tensor, grad: bool = False) -> Case:
        E = x.shape[-1]
        weight, bias = g.randn(E) + 2, 3 * g.randn(E)
        return Case(when, (x, weight, bias), grad=grad)

    when = "there is one token, weight is 1 and bias 0"
    yield plain(when, g.randn(8))
    yield plain(when, 3 * g.randn(1, 5) + 2)

    when = "every token is normalised by itself"
    yield plain(when, g.randn(4, 6))
    for shape in ((3, 5), (2, 3, 7), (2, 5, 3, 4)):
        sizes = torch.rand(*shape[:-1], 1, generator=g) * 8 + 0.5
        yield plain(
            when, g.randn(*shape) * sizes + 5 * g.randn(*shape[:-1], 1)
        )

    when = "weight and bias are not 1 and 0"
    for shape in ((3, 8), (2, 4, 5), (6,)):
        yield drawn(when, g.randn(*shape))

    when = "axes have the same length"
    for shape in ((4, 4), (3, 3, 3), (2, 2)):
        yield drawn(when, 2 * g.randn(*shape) + 1)

    when = "eps counts"
    yield plain(when, 1e-3 * g.randn(3, 6))
    yield plain(when, g.randn(2, 5), eps=0.5)
    yield plain(when, 0.1 * g.randn(2, 7), eps=1e-2)

    when = "a token is constant, so that its variance is 0"
    x = g.randn(3, 6)
    x[1] = 2.5
    yield plain(when, x)
    yield drawn(when, x * 2)
    yield drawn(when, g.randn(4, 1))

    when = "the mean of a token is large"
    offsets = torch.tensor([16384.0, -32768.0, 8192.0])[:, None]
    small = torch.randint(-8, 9, (3, 16), generator=g)
    yield plain(when, small + offsets)
    yield plain(when, torch.randint(-4, 5, (2, 8), generator=g) + 65536.0)

    when = "x is in half precision"
    for dtype in (torch.bfloat16, torch.float16):
        x = g.randn(3, 8) * torch.tensor([1.0, 400.0, 4000.0])[:, None] + 20
        weight, bias = g.randn(8) + 2, g.randn(8)
        yield Case(when, (x.to(dtype), weight.to(dtype), bias.to(dtype)))
    yield Case(when, (x.half(), weight, bias))

    when = "x is a view of another tensor"
    yield drawn(when, g.randn(6, 4, 3).transpose(0, 2))
    yield drawn(when, g.randn(3, 1, 5).expand(3, 2, 5))

    when = "gradients flow back, to x, weight and bias"
    yield drawn(when, 2 * g.randn(2, 3, 5) + 1, grad=True)
    yield drawn(when, g.randn(4, 6), grad=True)


def _zero_mean(case: Case, out: Tensor) -> bool:
    """Compare with the bias: what remains has mean 0 and variance 1."""
    x, weight, bias = case.args
    if out.shape != x.shape or x.dtype != torch.float32:
        return True
    normed = (out - bias) / weight
    return bool((normed.mean(-1).abs() < 0.02).all())


def _not_amplified(case: Case, out: Tensor) -> bool:
    x, weight, bias = case.args
    if out.shape != x.shape or x.dtype != torch.float32:
        return True
    normed = (out - bias) / weight
    return bool((normed.square().mean(-1) < 1.02).all())


exercise = Exercise(
    id="tfm-layer_norm",
    points=2,
    reference=_reference,
    cases=_cases,
    forbids=("layer_norm",),
    properties=(
        Property(
            "The result has the shape of x, one number for each.",
            lambda case, out: out.shape == case.args[0].shape,
        ),
        Property(
            "Before weight and bias, the features of each token have mean 0, "
            "and these do not: along which axis is your mean?",
            _zero_mean,
        ),
        Property(
            "Before weight and bias, the mean square of each token is at "
            "most 1, and here it is more: what do you divide by?",
            _not_amplified,
        ),
    ),
    breaks={
        "L = S": lambda c: all_sizes_differ(c) and c.args[0].dim() > 1,
        "weight = 1": lambda c: len(c.args[1].unique()) > 1,
        "contiguous strides": is_view,
        "cap = 50": lambda c: argument(c, 3, "eps") is not None,
    },
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
