"""Keep what is compared of a result: its plain values, and its gradients."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from zlib import crc32

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn.exercises.case import Case
from attn.grading.checks.inputs import (
    leaves,
    map_tensors,
    named_tensors,
    unchanged,
)

#: Classes whose objects are compared as they are.
_AS_THEY_ARE = (
    *(type(None), bool, int, float, complex, str, bytes, range, Fraction),
    *(torch.dtype, torch.device, torch.Generator),
)


@dataclass(frozen=True)
class Foreign:
    """Take the place of an object of another kind, and name it.

    Args:
        kind: ``a NumPy array``.
        details: the rest of its description, ``of shape (2,)``.
    """

    kind: str
    details: str = ""

    def __repr__(self) -> str:
        return f"{self.kind} {self.details}".rstrip()


def plain(x: Any) -> Any:
    """Return a result in tuples, lists and dicts, with its tensors.

    A number of NumPy's is Python's; an object of a class that no task
    returns becomes ``Foreign``.
    """
    if isinstance(x, tuple):
        return tuple(map(plain, x))
    if isinstance(x, list):
        return list(map(plain, x))
    if isinstance(x, dict):
        return {plain(k): plain(y) for k, y in x.items()}
    numpy: Any = sys.modules.get("numpy")  # a page has none
    if numpy and isinstance(x, numpy.generic):
        return x.item()
    if type(x) in _AS_THEY_ARE:
        return x
    name = type(x).__name__
    if type(x) in (Tensor, nn.Parameter):
        if x.is_nested:
            return Foreign("a nested tensor")
        if x.layout != torch.strided:
            layout = str(x.layout).removeprefix("torch.")
            return Foreign(f"a tensor with the layout {layout}")
        return x
    if isinstance(x, Tensor):
        return Foreign(f"a tensor of the class {name}")
    if numpy and isinstance(x, numpy.ndarray):
        return Foreign("a NumPy array", f"of shape {x.shape}")
    if isinstance(x, types.GeneratorType):
        return Foreign("a generator (yield makes one; return gives a result)")
    return Foreign(f"a {name}")


def copied(result: Any) -> Any:
    """Copy a plain result: its tensors are others, with equal elements."""
    return map_tensors(lambda x: x.detach().clone(), result)


def reduced(result: Any, case: Case) -> Any:
    """Return what is compared of a result: all, its maxima, or its shares."""

    def compared(x: Tensor) -> Tensor:
        axis, (groups, ids) = case.largest_over, case.shares or (0, 0)
        if axis is not None and x.dim() >= -axis and x.numel():
            return x.amax(axis)
        if not groups or x.dtype != torch.int64 or x.dim() != 1:
            return x
        if len(x) % groups or not len(x) or x.min() < 0 or x.max() >= ids:
            return x
        return F.one_hot(x.view(groups, -1), ids).float().mean(1)

    return map_tensors(compared, result)


def same_tensors(a: Any, b: Any) -> bool:
    """Return whether two results hold exactly equal tensors, at least one."""
    first, second = dict(named_tensors(a)), dict(named_tensors(b))
    return (
        first.keys() == second.keys()
        and any(x.numel() for x in first.values())
        and all(unchanged(x, second[name]) for name, x in first.items())
    )


CUT_OFF = (
    "no gradient flows back from the result: was it detached, or built from "
    "Python numbers?"
)


class NoGradient(RuntimeError):
    """Raised where no gradient flows back from a result."""


def gradients(output: Any, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the gradients of ``sum(output * cotangent)``, or zeros.

    A result that is 0 throughout has the gradient 0, with a graph or without;
    one that holds a foreign object has none.

    Args:
        output: a tensor, or a structure of tensors.
        inputs: leaves by name; integers among them are left out.

    Raises:
        NoGradient: no tensor of the result has a graph.
    """
    if any(isinstance(x, Foreign) for _, x in leaves(output)):
        return {}
    floats = {n: x for n, x in inputs.items() if x.is_floating_point()}
    zeros = {n: torch.zeros_like(x) for n, x in floats.items()}
    given = {n: x for n, x in floats.items() if x.requires_grad}
    named = dict(named_tensors(output))
    # By name: a dict may be in any order.
    results = [(n, named[n]) for n in sorted(named) if named[n].requires_grad]
    if not results:
        if named and not any(x.any() for x in named.values()):
            return zeros
        raise NoGradient(CUT_OFF)
    # As a sum: given apart, the cotangents make PyTorch import SymPy.
    parts = [(x * _cotangent(x, name)).sum() for name, x in results]
    total, by = torch.stack(parts).sum(), [*given.values()]
    grads = torch.autograd.grad(total, by, allow_unused=True)
    pairs = zip(given, grads, strict=True)
    return zeros | copied({n: g for n, g in pairs if g is not None})


def _cotangent(like: Tensor, name: str) -> Tensor:
    """Return fixed mixed elements (never ones) in the shape of a result.

    Two results of one shape have others: their gradients are not alike.
    """
    k = torch.arange(like.numel()) + crc32(name.encode()) % 997 + 1
    mixed = (k * k * 7919 + k * 31) % 10007
    noise = (mixed.double() - 5003) / 3000  # from -1.7 to 1.7
    return noise.to(like.dtype).reshape(like.shape)
