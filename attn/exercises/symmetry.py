"""Symmetric points of an input, at which a mistake cancels.

With one key every softmax is right, with as many queries as keys a transposed
mask still fits. ``Exercise.breaks`` gives a predicate for each point that
applies: it is true of a case that is away from the point. The ten points are
those at which most of the known mistakes were found to hide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from attn.exercises.spec import Case, Exercise

POINTS = {
    "position 0": "an offset, a rotation or a row index does nothing",
    "S = 1": "every softmax over one key is 1",
    "H = 1": "head and batch axes cannot be mixed up",
    "L = S": "a transposed or top-left mask still fits",
    "p = 0.5": "p and 1 - p are the same",
    "cap = 50": "a cap far above the scores does nothing",
    "weight = 1": "a weight that is left out, or used twice, does nothing",
    "identity block table": "an ignored table does nothing",
    "zeroed memory": "reading what was never written gives 0",
    "contiguous strides": "reshape and transpose agree",
}


def argument(case: Case, position: int, name: str) -> Any:
    """Return an argument by position or keyword; None when it is absent."""
    if position < len(case.args):
        return case.args[position]
    return case.kwargs.get(name)


def dials(exercise: Exercise, cases: Iterable[Case]) -> dict[str, set[float]]:
    """Return the values that cases give each numeric argument.

    Of a tensor of integers, those in it; of a class, its constructor's
    arguments too; of an argument that a case leaves out, its default.
    """
    found: dict[str, set[float]] = {}
    for case in cases:
        inputs = {**exercise.defaults, **(case.init or {})}
        inputs |= exercise.inputs(case)
        for name, x in inputs.items():
            if isinstance(x, int | float) and not isinstance(x, bool):
                found.setdefault(name, set()).add(x)
            elif isinstance(x, Tensor) and x.dtype in (
                torch.int32,
                torch.int64,
            ):
                found.setdefault(name, set()).update(x.flatten().tolist())
    return found


def is_view(case: Case) -> bool:
    """Return whether an input is not contiguous."""
    inputs = [*case.args, *case.kwargs.values()]
    return any(isinstance(x, Tensor) and not x.is_contiguous() for x in inputs)


def amid_others(case: Case) -> bool:
    """Return whether the input is in a larger memory that is not zero."""
    x = case.args[0]
    around = torch.empty(0).to(x.dtype).set_(x.untyped_storage())
    return len(around) > x.numel() and bool((around[:4] != 0).all())


def many_queries(case: Case) -> bool:
    """Return whether L differs from S."""
    return case.args[0].shape[-2] != case.args[1].shape[-2]


def many_keys(case: Case) -> bool:
    """Return whether S is more than 1."""
    return case.args[1].shape[-2] > 1


def heads(case: Case) -> bool:
    """Return whether the first input has a batch of several heads."""
    return case.args[0].dim() >= 4 and case.args[0].shape[-3] > 1


def kv_heads(case: Case) -> bool:
    """Return whether there are several key heads, each shared."""
    query, key = argument(case, 0, "query"), argument(case, 1, "key")
    return 1 < key.shape[-3] < query.shape[-3]


def all_sizes_differ(case: Case) -> bool:
    """Return whether no two axes of the first input have the same length."""
    shape = case.args[0].shape
    return len(set(shape)) == len(shape)


def not_square(case: Case) -> bool:
    """Return whether the matrices of the first input are not square."""
    return case.args[0].shape[-2] != case.args[0].shape[-1]


OF_ATTENTION: dict[str, Callable[[Case], Any]] = {
    "S = 1": many_keys,
    "L = S": many_queries,
    "contiguous strides": is_view,
}
"""The points of any function of query and key; an exercise adds its own."""
