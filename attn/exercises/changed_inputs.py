"""Derive a case with other inputs: one argument, or the length of all."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

LENGTH = 130  # at least: tables of 64 and of 128 rows are too short
_MOST = 40_000  # elements of an input


def longer_inputs(
    inputs: Mapping[str, Any], least: int
) -> dict[str, Any] | None:
    """Return inputs with their longest axis of tokens repeated, if they can.

    It is the last axis but one, or the last of a mask; or a number that is
    called a length. All axes of that length are repeated, to ``least``
    elements, or twice where that is more.
    """
    tensors = _tensors(inputs)
    lengths = {
        x for name, x in inputs.items() if _is_length(name) and type(x) is int
    }
    indices = [x for x in tensors if _is_index(x)]
    if not indices:  # and no tables, of other axes
        alike = (x for x in tensors if x.dim() == tensors[0].dim())
        lengths.update(*map(_lengths, alike))
    length = max(lengths, default=0)
    if not 2 <= length < LENGTH or any(length in x.shape for x in indices):
        return None  # nothing is longer, or what cannot be repeated
    if any(isinstance(x, Mapping) for x in inputs.values()):
        return None
    times = max(-(-least // length), 2)
    repeat = partial(_repeated, length=length, times=times)
    longer = {
        name: x * times
        if _is_length(name) and x == length
        else tree_map_only(Tensor, repeat, x)
        for name, x in inputs.items()
    }
    is_small = all(x.numel() <= _MOST for x in _tensors(longer))
    return longer if is_small else None


def _tensors(inputs: Mapping[str, Any]) -> list[Tensor]:
    leaves = chain.from_iterable(map(tree_leaves, inputs.values()))
    return [x for x in leaves if isinstance(x, Tensor)]


def _is_length(name: str) -> bool:
    return name.endswith(("_len", "_length"))


def _is_index(x: Tensor) -> bool:
    """Return whether a tensor holds positions, borders or an order."""
    return not x.is_floating_point() and x.dtype != torch.bool


def _lengths(x: Tensor) -> set[int]:
    """Return the last axis but one; of a mask, the last one too."""
    return {*x.shape[-2:-1]} if x.is_floating_point() else {*x.shape[-2:]}


def _repeated(x: Tensor, length: int, times: int) -> Tensor:
    return x.repeat([times if n == length else 1 for n in x.shape])
