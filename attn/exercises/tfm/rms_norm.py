"""Cases, properties and correct variants of ``tfm-rms_norm``."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import all_sizes_differ, argument, is_view
from attn.nn import RMSNorm


def _reference(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Use ``attn``'s module, with this parameter."""
    norm = RMSNorm(x.shape[-1], eps)
    return torch.func.functional_call(norm, {"weight": weight}, (x,))


def _cases(g: Draw) -> Iterator[Case]:
    def plain(when: str, x: Tensor, **more: float) -> Case:
        return Case(when, (x, torch.ones(x.shape[-1])), more)

    def drawn(when: str, x: Tensor, grad: bool = False) -> Case:
        return Case(when, (x, 2 * g.randn(x.shape[-1]) + 1), grad=grad)

    when = "there is one token, and weight is 1"
    yield plain(when, g.randn(8))
    yield plain(when, 3 * g.randn(1, 5))

    when = "every token is normalised by itself"
    yield plain(when, g.randn(4, 6))
    for shape in ((3, 5), (2, 3, 7), (2, 5, 3, 4)):
        sizes = torch.rand(*shape[:-1], 1, generator=g) * 8 + 0.5
        yield plain(when, g.randn(*shape) * sizes)

    when = "the mean of a token is not 0"
    yield plain(when, g.randn(3, 6) + 2)
    yield plain(when, g.randn(2, 8) + 300)

    when = "weight is not 1"
    for shape in ((3, 8), (2, 4, 5), (6,)):
        yield drawn(when, g.randn(*shape))

    when = "axes have the same length"
    for shape in ((4, 4), (3, 3, 3), (2, 2)):
        yield drawn(when, 2 * g.randn(*shape) + 1)

    when = "eps counts"
    yield plain(when, 3e-4 * g.randn(3, 6))
    yield plain(when, g.randn(2, 5), eps=0.5)
    yield plain(when, 0.1 * g.randn(2, 7), eps=1e-2)

    when = "a token is all zeros"
    x = g.randn(3, 6)
    x[1] = 0
    yield drawn(when, x)
    yield drawn(when, torch.zeros(2, 1))

    when = "x is in half precision"
    for dtype in (torch.bfloat16, torch.float16):
        sizes = torch.tensor([1e-4, 1.0, 400.0, 9000.0])[:, None]
        x, weight = g.randn(4, 8) * sizes, 2 * g.randn(8) + 1
        yield Case(when, (x.to(dtype), weight.to(dtype)))
    yield Case(when, (x.half(), weight))

    when = "x is a view of another tensor"
    yield drawn(when, g.randn(6, 4, 3).transpose(0, 2))
    yield drawn(when, g.randn(3, 1, 5).expand(3, 2, 5))

    when = "gradients flow back, to x and to weight"
    yield drawn(when, 2 * g.randn(2, 3, 5) + 1, grad=True)
    yield drawn(when, g.randn(4, 6), grad=True)


def _direction(case: Case, out: Tensor) -> bool:
    """Return whether each token kept its direction, up to weight."""
    x, weight = case.args
    if out.shape != x.shape or x.dtype != torch.float32:
        return True
    same = F.cosine_similarity(out, x * weight, dim=-1)
    return bool(((same > 0.999) | (x.norm(dim=-1) == 0)).all())


def _not_amplified(case: Case, out: Tensor) -> bool:
    x, weight = case.args
    if out.shape != x.shape or x.dtype != torch.float32:
        return True
    return bool(((out / weight).square().mean(-1) < 1.02).all())


exercise = Exercise(
    id="tfm-rms_norm",
    points=2,
    reference=_reference,
    cases=_cases,
    forbids=("rms_norm",),
    properties=(
        Property(
            "The result has the shape of x, one number for each.",
            lambda case, out: out.shape == case.args[0].shape,
        ),
        Property(
            "Before weight, a token keeps its direction: one number divides "
            "all its features, and nothing is subtracted. Here it does not.",
            _direction,
        ),
        Property(
            "Before weight, the mean square of each token is at most 1, and "
            "here it is more: what do you divide by?",
            _not_amplified,
        ),
    ),
    breaks={
        "L = S": lambda c: all_sizes_differ(c) and c.args[0].dim() > 1,
        "weight = 1": lambda c: len(c.args[1].unique()) > 1,
        "contiguous strides": is_view,
        "cap = 50": lambda c: argument(c, 2, "eps") is not None,
    },
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
