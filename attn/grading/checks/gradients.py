"""Compute the gradients of a learner's result."""

from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from attn.grading.checks.inputs import named_tensors


class NoGradient(RuntimeError):
    """Raised where no gradient flows back from a result."""


def gradients(output: Any, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the gradients of ``sum(output * cotangent)``, or zeros.

    A result that is 0 throughout has the gradient 0, with a graph or without.

    Args:
        output: a tensor, or a structure of tensors.
        inputs: leaves by name; integers among them are left out.

    Raises:
        NoGradient: no tensor of the result has a graph.
    """
    floats = {n: x for n, x in inputs.items() if x.is_floating_point()}
    zeros = {n: torch.zeros_like(x) for n, x in floats.items()}
    leaves = {n: x for n, x in floats.items() if x.requires_grad}
    named = sorted(
        named_tensors(output), key=lambda x: x[0]
    )  # a dict may be in any order
    tensors = [x for _, x in named]
    results = [x for x in tensors if x.requires_grad]
    if tensors and not results and not any(x.any() for x in tensors):
        return zeros
    if not results:
        raise NoGradient(
            "no gradient flows back from the result: was it detached, or "
            "built from Python numbers?"
        )
    # As a sum: given apart, the cotangents make PyTorch import SymPy.
    parts = [
        (x * cotangent(x, name)).sum() for name, x in named if x.requires_grad
    ]
    total = torch.stack(parts).sum()
    grads = torch.autograd.grad(
        total, list(leaves.values()), allow_unused=True
    )
    return zeros | {
        name: g.detach().clone()
        for name, g in zip(leaves, grads, strict=True)
        if g is not None
    }


def cotangent(like: Tensor, name: str) -> Tensor:
    """Draw fixed random elements (never ones) in the shape of a result.

    Two results of one shape have others: their gradients are not alike.
    """
    seed = crc32(name.encode()) + like.numel()
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(like.shape, generator=generator, dtype=torch.float64)
    return noise.to(like.dtype)
