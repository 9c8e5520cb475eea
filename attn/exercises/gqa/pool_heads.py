"""Cases, properties and correct variants of ``gqa-pool_heads``."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import functional
from attn.exercises.draw import Draw
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def _cases(g: Draw) -> Iterator[Case]:
    def weight(H: int, D: int, *rest: int) -> Tensor:
        """Give each head its own level, so that none passes for another."""
        level = torch.randperm(H, generator=g).float() * 3
        rows = torch.randn(H, D, *rest, generator=g)
        return (rows + level.view(-1, *[1] * (rows.dim() - 1))).flatten(0, 1)

    when = "a head is one row (D = 1)"
    yield Case(when, (weight(6, 1, 2), 6, 3))
    yield Case(when, (weight(8, 1, 3), 8, 2))

    when = "a head is several rows"
    yield Case(when, (weight(6, 4, 5), 6, 3))
    yield Case(when, (weight(6, 3, 7), 6, 2))
    yield Case(when, (weight(12, 2, 5), 12, 3))

    when = "one head is left (Hkv = 1)"
    yield Case(when, (weight(4, 3, 5), 4, 1))
    yield Case(when, (weight(2, 5, 4), 2, 1))

    when = "H = Hkv, so that nothing changes"
    yield Case(when, (weight(3, 4, 5), 3, 3))

    when = "axes have the same length"
    yield Case(when, (weight(4, 2, 8), 4, 2))
    yield Case(when, (weight(4, 4, 4), 4, 2))
    yield Case(when, (weight(9, 3, 3), 9, 3))

    when = "it is a bias: one axis"
    yield Case(when, (weight(6, 4), 6, 3))
    yield Case(when, (weight(6, 3), 6, 2))
    yield Case(when, (weight(4, 3), 4, 1))

    when = "weight is a view of another tensor"
    yield Case(when, (weight(6, 3, 7).mT.contiguous().mT, 6, 2))
    packed = torch.cat([weight(6, 2, 5) for _ in "qkv"])
    yield Case(when, (packed[12:24], 6, 3))
    yield Case(when, (torch.stack([weight(6, 2)] * 2, 1)[:, 0], 6, 2))

    when = "gradients flow back, to every head that was averaged"
    yield Case(when, (weight(6, 3, 4), 6, 2), grad=True)
    yield Case(when, (weight(6, 2), 6, 3), grad=True)


def _right_shape(case: Case, out: Tensor) -> bool:
    weight, old, new = case.args
    return out.shape == (weight.shape[0] // old * new, *weight.shape[1:])


def _same_mean(case: Case, out: Tensor) -> bool:
    mean = case.args[0].mean(0)
    return not _right_shape(case, out) or torch.allclose(
        out.mean(0), mean, rtol=1e-3, atol=1e-3
    )


def _first_row(case: Case, out: Tensor) -> bool:
    weight, old, new = case.args
    if not _right_shape(case, out):
        return True
    rows = weight[:: len(weight) // old][: old // new]  # row 0 of its heads
    return torch.allclose(out[0], rows.mean(0), rtol=1e-3, atol=1e-3)


exercise = Exercise(
    id="gqa-pool_heads",
    points=2,
    reference=functional.pool_heads,
    cases=_cases,
    properties=(
        Property(
            "Only axis 0 may change, from H * D rows to Hkv * D; a weight "
            "stays a matrix, a bias a vector.",
            _right_shape,
        ),
        Property(
            "Averaging heads does not change the mean of each column of "
            "weight, and here it does: is a sum divided by something else, "
            "or are heads left out?",
            _same_mean,
        ),
        Property(
            "Row 0 of new head 0 is the mean of row 0 of old heads 0 to "
            "G - 1, and here it is not: which rows were averaged?",
            _first_row,
        ),
    ),
    breaks={
        "H = 1": lambda c: 1 < c.args[2] < c.args[1],
        "L = S": lambda c: c.args[1] // c.args[2] != c.args[2],
        "contiguous strides": is_view,
    },
)


@exercise.equivalent("reshape, a sum and a division")
def _reshape(weight, num_heads, num_kv_heads):
    width = len(weight) // num_heads
    group = num_heads // num_kv_heads
    heads = weight.reshape(num_kv_heads, group, width, *weight.shape[1:])
    total = heads.sum(dim=1) / group
    return total.reshape(num_kv_heads * width, *weight.shape[1:])


@exercise.equivalent("a loop over the new heads")
def _loop(weight, num_heads, num_kv_heads):
    group = num_heads // num_kv_heads
    heads = weight.chunk(num_heads, dim=0)
    starts = range(0, num_heads, group)
    return torch.cat([sum(heads[i : i + group]) / group for i in starts])


@exercise.equivalent("every G-th head, added up")
def _strides(weight, num_heads, num_kv_heads):
    group = num_heads // num_kv_heads
    heads = weight.unflatten(0, (num_heads, -1))
    total = heads[0::group] * 1.0
    for i in range(1, group):
        total = total + heads[i::group]
    return (total / group).flatten(0, 1)


@exercise.equivalent("a matrix product from the left")
def _matrix(weight, num_heads, num_kv_heads):
    group, width = num_heads // num_kv_heads, len(weight) // num_heads
    mean = torch.full((1, group), 1 / group)
    pool = torch.kron(torch.eye(num_kv_heads), mean)
    return torch.kron(pool, torch.eye(width)) @ weight


@exercise.equivalent("index_add into zeros")
def _index_add(weight, num_heads, num_kv_heads):
    group = num_heads // num_kv_heads
    heads = weight.unflatten(0, (num_heads, -1))
    out = weight.new_zeros(num_kv_heads, *heads.shape[1:])
    index = torch.arange(num_heads) // group
    return out.index_add(0, index, heads / group).flatten(0, 1)


@exercise.equivalent("PyTorch's average pooling along the heads")
def _avg_pool(weight, num_heads, num_kv_heads):
    group, width = num_heads // num_kv_heads, len(weight) // num_heads
    flat = weight.reshape(num_heads, -1).T  # (D * E, H)
    pooled = F.avg_pool1d(flat[None], group)[0].T  # (Hkv, D * E)
    return pooled.reshape(num_kv_heads * width, *weight.shape[1:])
