"""Keep what is compared of a result, and say what is no plain tensor."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from attn.grading.checks.inputs import map_tensors, named_tensors, unchanged

if TYPE_CHECKING:
    from attn.exercises.case import Case


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


def plain_copy(output: Any) -> Any:
    """Copy a result, and put ``Foreign`` in place of foreign objects.

    Of a tuple, a list or a dict of another class, a named one for instance,
    what it holds is taken: methods of an answer's own are not called.
    """
    if isinstance(output, tuple):
        return tuple(map(plain_copy, tuple.__iter__(output)))
    if isinstance(output, list):
        return list(map(plain_copy, list.__iter__(output)))
    if isinstance(output, dict):
        return {k: plain_copy(x) for k, x in dict.items(output)}
    return _copied_leaf(output)


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


def _copied_leaf(x: Any) -> Any:
    if isinstance(x, Tensor):
        if type(x) not in (Tensor, nn.Parameter):
            return Foreign(f"a tensor of the class {type(x).__name__}")
        if x.is_nested:
            return Foreign("a nested tensor")
        if x.layout != torch.strided:
            name = str(x.layout).removeprefix("torch.")
            return Foreign(f"a tensor with the layout {name}")
        return x.detach().clone()
    if isinstance(x, np.ndarray):
        return Foreign("a NumPy array", f"of shape {x.shape}")
    if inspect.isgenerator(x):
        return Foreign("a generator (yield makes one; return gives a result)")
    return x
