"""Compute along an axis: softmax, running sums, order."""

from __future__ import annotations

import math
from itertools import accumulate, groupby
from operator import mul
from typing import Any

from .dtypes import FLOAT, dtype, int64
from .errors import said
from .joining import take
from .names import METHODS, both
from .reductions import (
    Row,
    converted,
    has_nan,
    returned,
    rows,
    total_type,
)
from .shapes import movedim, squeeze
from .sizes import axis
from .tensor import Tensor, elements, new


def along(x: Tensor, dim: int, f: Row, kind: dtype) -> Tensor:
    """Replace the elements along an axis by as many others."""
    n = len(x.shape)
    d = axis(dim, n)
    values: list[Any] = []
    for row in rows(x, [d] if n else []):
        values += f(row)
    if d == n - 1 or not n:
        return new(kind.round(values), x.shape, kind)
    shape = [*x.shape[:d], *x.shape[d + 1 :], x.shape[d]]
    moved = movedim(new(kind.round(values), shape, kind), -1, d)
    return new(list(elements(moved)), x.shape, kind)


def softmax_of(row: list[float]) -> list[float]:
    """Return the softmax of a list."""
    high = max(row, default=0.0)
    exps = [math.exp(x - high) for x in row]
    total = sum(exps)
    return [x / total for x in exps]


def _log_softmax(row: list[float]) -> list[float]:
    high = max(row, default=0.0)
    total = math.log(sum([math.exp(x - high) for x in row]) if row else 1.0)
    return [x - high - total for x in row]


def _register_softmax(name: str, f: Row) -> None:
    def compute(input, dim, *, dtype=None):
        x = converted(input, dtype)
        if x.dtype.kind != FLOAT:
            raise said("no_softmax", name, x.dtype.label)
        return along(x, dim, f, x.dtype)

    both(compute, name=name)


_register_softmax("softmax", softmax_of)
_register_softmax("log_softmax", _log_softmax)


@both
def cumsum(input, dim, *, dtype=None):
    kind = total_type(input, dtype)
    return along(input, dim, lambda row: list(accumulate(row)), kind)


@both
def cumprod(input, dim, *, dtype=None):
    kind = total_type(input, dtype)
    return along(input, dim, lambda row: list(accumulate(row, mul)), kind)


def _running_place(row: list[Any]) -> list[int]:
    """Return where the largest element so far is, the last of equals."""
    found = [0] * len(row)
    for i in range(1, len(row)):
        last = row[found[i - 1]]
        is_new = row[i] >= last or row[i] != row[i]
        found[i] = i if is_new and last == last else found[i - 1]
    return found


_cummax, _sort, _top, _median = map(
    returned, ("cummax", "sort", "topk", "median")
)


def _with_values(pair: Any, x: Tensor, dim: int, indices: Tensor) -> Any:
    """Return the elements that indices point to along an axis, and these."""
    if not x.shape:
        return pair(METHODS["clone"](x), indices)
    return pair(METHODS["gather"](x, dim, indices), indices)


@both
def cummax(input, dim):
    indices = along(input, dim, _running_place, int64)
    return _with_values(_cummax, input, dim, indices)


def order_of(row: list[Any], descending: bool) -> list[int]:
    """Return the indices that sort a list; equal elements stay in order."""
    key: Any = row.__getitem__
    if has_nan(row):  # NaN is the largest
        key = lambda i: (row[i] != row[i], 0 if row[i] != row[i] else row[i])  # noqa: E731
    return sorted(range(len(row)), key=key, reverse=descending)


@both
def argsort(input, dim=-1, descending=False, stable=False):
    f = lambda row: order_of(row, descending)  # noqa: E731
    return along(input, dim, f, int64)


@both
def sort(input, dim=-1, descending=False, stable=False):
    indices = argsort(input, dim, descending)
    return _with_values(_sort, input, dim, indices)


def _last_first(row: list[Any], descending: bool) -> list[int]:
    """Return the indices that sort a list; of equal elements, last first.

    PyTorch's ``topk`` takes any of them, and most often the last.
    """
    n = len(row)
    return [n - 1 - i for i in order_of(row[::-1], descending)]


@both
def topk(input, k, dim=-1, largest=True, sorted=True):
    d = axis(dim, len(input.shape))
    if not 0 <= k <= (input.shape[d] if input.shape else 1):
        raise RuntimeError("selected index k out of range")
    f = lambda row: _last_first(row, largest)  # noqa: E731
    found = _with_values(_top, input, dim, along(input, dim, f, int64))
    if not input.shape:
        return found
    return _top(*(take(x, d, range(k)) for x in found))


@both
def median(input, dim=None, keepdim=False):
    if dim is None:
        return median(METHODS["flatten"](input), 0).values
    middle = (input.shape[axis(dim, len(input.shape))] - 1) // 2
    found = [
        take(x, axis(dim, len(x.shape)), [middle]) for x in sort(input, dim)
    ]
    return _median(*(x if keepdim else squeeze(x, dim) for x in found))


def _different(
    x: Tensor, groups: list[tuple[Any, list[int]]], inverse: bool, counts: bool
) -> Any:
    """Return the element of each group of places, and what else is wanted."""
    results = [new([v for v, _ in groups], [len(groups)], x.dtype)]
    if inverse:
        at = {i: k for k, (_, places) in enumerate(groups) for i in places}
        order = [at[i] for i in range(len(at))]
        results.append(new(order, x.shape, int64))
    if counts:
        many = [len(places) for _, places in groups]
        results.append(new(many, [len(groups)], int64))
    return results[0] if len(results) == 1 else tuple(results)


@both
def unique(input, sorted=True, return_inverse=False, return_counts=False):
    values = elements(input)
    order = order_of(values, False)
    groups = [(v, list(g)) for v, g in groupby(order, values.__getitem__)]
    return _different(input, groups, return_inverse, return_counts)


@both
def unique_consecutive(input, return_inverse=False, return_counts=False):
    values = elements(input)
    order = range(len(values))
    groups = [(v, list(g)) for v, g in groupby(order, values.__getitem__)]
    return _different(input, groups, return_inverse, return_counts)
