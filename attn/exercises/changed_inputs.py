"""Derive a case with other inputs: longer ones, or those of another dtype."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from attn.exercises import sources
from attn.exercises.case import IN_DTYPE, Case

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


def cast_inputs(
    exercise: str, every: Sequence[Case], typical: Sequence[Case]
) -> Iterator[tuple[Case, torch.dtype]]:
    """Yield typical cases in float64 and bfloat16, where no case has them.

    None, where the task names a dtype; else the result has that of the inputs.

    Little but the dtype of a result is compared: in bfloat16 numbers depend on
    the order of the operations, and not all operations have it; and a task may
    compute in float32.
    """
    text = "".join(sources.docstrings(exercise).values())
    if re.search("dtype|float[1-9]|half prec", text):
        return
    seen = {x.dtype for case in every for x in _tensors(_inputs(case))}
    for dtype, rtol in ((torch.float64, 1e-5), (torch.bfloat16, 1.0)):
        when = f"{IN_DTYPE} {str(dtype).removeprefix('torch.')}"
        for case in typical if dtype not in seen else ():
            cast = with_tensors(case, lambda x, dtype=dtype: x.to(dtype))
            cast = replace(cast, condition=when, rtol=rtol)
            yield replace(cast, may_raise=dtype == torch.bfloat16), dtype


def in_float64(case: Case, *, perturbed: bool = False) -> Case:
    """Return a case with float64 inputs, moved by rounding if ``perturbed``.

    Rounding is float32's, where results of half precision are computed too.
    """

    def double(x: Tensor) -> Tensor:
        eps = min(torch.finfo(t).eps for t in (x.dtype, torch.float32))
        x = x.double()
        if not perturbed:
            return x
        # Equal elements are moved alike: a table's pairs stay pairs.
        bits = x.abs().contiguous().view(torch.int64) * 0x1E3779B97F4A7C15
        return x * (1 + ((bits >> 60 & 1) * 2 - 1) * eps)

    return with_tensors(case, double)


def with_tensors(case: Case, change: Callable[[Tensor], Tensor]) -> Case:
    """Return a case with its floating tensors changed, weights too."""

    def changed(x: Tensor) -> Tensor:
        return change(x) if x.is_floating_point() else x

    inputs: dict[str, Any] = {
        name: tree_map_only(Tensor, changed, getattr(case, name))
        for name in ("args", "kwargs", "state")
    }
    before = tuple(with_tensors(x, change) for x in case.before)
    return replace(case, **inputs, before=before)


def _inputs(case: Case) -> dict[str, Any]:
    return {"args": case.args, "kwargs": dict(case.kwargs)}


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
