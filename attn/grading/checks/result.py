"""Keep what is compared of a result, and say what is no plain tensor."""

from __future__ import annotations

import gc
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from attn.grading.checks.inputs import map_tensors, named_tensors, unchanged

if TYPE_CHECKING:
    from attn.exercises.case import Case

#: Classes whose objects hold nothing that an answer could have made its own.
_AS_THEY_ARE = frozenset(
    (
        *(type(None), bool, int, float, complex, str, bytes, range, Fraction),
        *(torch.dtype, torch.device, torch.Generator),
    )
)
_NUMPYS = frozenset(np.sctypeDict.values())  # the classes of its numbers
# A class may have a name, and an array a shape, that are code.
_name = vars(type)["__name__"].__get__
_shape = vars(np.ndarray)["shape"].__get__


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


def plain(output: Any) -> Any:
    """Return a result in objects of the grader's own, with its tensors.

    Methods of an answer's own are not called: not one that says of which
    class an object is, how it is iterated over, or what number it is. A
    foreign object becomes ``Foreign``.
    """
    kind = type(output)
    if issubclass(kind, tuple):
        return tuple(map(plain, tuple.__iter__(output)))
    if issubclass(kind, list):
        return list(map(plain, list.__iter__(output)))
    if issubclass(kind, dict):
        items = dict.items(output)
        return {plain(k): plain(x) for k, x in items}
    if kind in _NUMPYS:
        return output.item()
    return output if kind in _AS_THEY_ARE else _plain_leaf(output, kind)


def copied(result: Any) -> Any:
    """Copy a plain result: its tensors are others, with equal elements."""
    return map_tensors(lambda x: x.detach().clone(), result)


@contextmanager
def no_finalizers() -> Iterator[None]:
    """Collect no garbage meanwhile: a finalizer may be the answer's code."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def reduced(result: Any, case: Case) -> Any:
    """Return what is compared of a result: all, its maxima, or its shares."""
    axis = case.largest_over

    def largest(x: Tensor) -> Tensor:
        if axis is None or x.dim() < -axis or not x.numel():
            return x
        return x.amax(axis)

    def shares(x: Tensor) -> Tensor:
        groups, ids = case.shares or (1, 1)
        if x.dtype != torch.int64 or x.dim() != 1 or len(x) % groups:
            return x
        if not len(x) or x.min() < 0 or x.max() >= ids:
            return x
        return F.one_hot(x.view(groups, -1), ids).float().mean(1)

    return map_tensors(shares if case.shares else largest, result)


def has_foreign(output: Any) -> bool:
    """Return whether a copied result holds a foreign object."""
    return any(isinstance(x, Foreign) for x in tree_leaves(output))


def same_tensors(a: Any, b: Any) -> bool:
    """Return whether two results hold exactly equal tensors, at least one."""
    first, second = dict(named_tensors(a)), dict(named_tensors(b))
    return (
        first.keys() == second.keys()
        and any(x.numel() for x in first.values())
        and all(unchanged(x, second[name]) for name, x in first.items())
    )


def _plain_leaf(x: Any, kind: type) -> Any:
    if kind in (Tensor, nn.Parameter):
        if x.is_nested:
            return Foreign("a nested tensor")
        if x.layout != torch.strided:
            name = str(x.layout).removeprefix("torch.")
            return Foreign(f"a tensor with the layout {name}")
        return x
    if issubclass(kind, Tensor):
        return Foreign(f"a tensor of the class {_name(kind)}")
    if issubclass(kind, np.ndarray):
        return Foreign("a NumPy array", f"of shape {_shape(x)}")
    if issubclass(kind, types.GeneratorType):
        return Foreign("a generator (yield makes one; return gives a result)")
    return Foreign(f"a {_name(kind)}")
