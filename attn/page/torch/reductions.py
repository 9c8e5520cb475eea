"""Reduce axes, and compute along them: sums, maxima, softmax, order.

Sums are computed in float64 and rounded once: at least as exact as
PyTorch's, and not always equal to them in the last bit.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from itertools import accumulate, groupby
from operator import mul
from typing import Any

from .dtypes import BOOL, COMPLEX, FLOAT, REAL, bool_, dtype, float32, int64
from .names import METHODS, both, function, linalg
from .shapes import permuted, reshape, take
from .tensor import Tensor, axes, axis, elements, new, rounded

inf, nan = math.inf, math.nan
Row = Callable[[list[Any]], Any]


def rows(x: Tensor, dims: list[int]) -> list[list[Any]]:
    """Return the elements of axes, as a list for each of the others."""
    kept = [d for d in range(len(x.shape)) if d not in dims]
    values = elements(permuted(x, kept + dims) if kept or dims else x)
    n = math.prod(x.shape[d] for d in dims)
    if not n:
        return [[]] * math.prod(x.shape[d] for d in kept)
    return [values[i : i + n] for i in range(0, len(values), n)]


def reduced_shape(x: Tensor, dims: list[int], keepdim: bool) -> list[int]:
    """Return the shape without axes, or with 1 in their places."""
    if keepdim:
        return [1 if d in dims else n for d, n in enumerate(x.shape)]
    return [n for d, n in enumerate(x.shape) if d not in dims]


def reduce(
    x: Tensor, dim: Any, keepdim: bool, f: Row, result: dtype
) -> Tensor:
    """Reduce the elements of axes to one with a function of a list."""
    dims = axes(dim, len(x.shape))
    values = [f(row) for row in rows(x, dims)]
    return rounded(values, reduced_shape(x, dims, keepdim), result)


def along(x: Tensor, dim: int, f: Row, result: dtype) -> Tensor:
    """Replace the elements along an axis by as many others."""
    d = axis(dim, len(x.shape))
    values: list[Any] = []
    for row in rows(x, [d] if x.shape else []):
        values += f(row)
    return _back(result.round(values), x, d, result)


def _back(values: list[Any], x: Tensor, d: int, result: dtype) -> Tensor:
    """Make a tensor of values that come with axis d as the last."""
    n = len(x.shape)
    if d == n - 1 or not n:
        return new(values, x.shape, result)
    order = [*range(d), *range(d + 1, n), d]
    moved = new(values, [x.shape[i] for i in order], result)
    back = [*range(d), n - 1, *range(d, n - 1)]
    return new(list(elements(permuted(moved, back))), x.shape, result)


def _needs_floats(name: str, x: Tensor) -> dtype:
    if x.dtype.kind < FLOAT:
        raise RuntimeError(
            f"{name}(): could not infer output dtype. Input dtype must be "
            f"either a floating point or complex dtype. Got: {x.dtype.label}"
        )
    return x.dtype


def converted(x: Tensor, kind: dtype | None) -> Tensor:
    """Return the tensor in a dtype, or itself if none is given."""
    if kind is None or kind is x.dtype:
        return x
    return rounded(elements(x), x.shape, kind)


def _total(x: Tensor, kind: dtype | None) -> dtype:
    return kind or (int64 if x.dtype.kind < FLOAT else x.dtype)


@both
def sum_(input, dim=None, keepdim=False, *, dtype=None):
    return reduce(input, dim, keepdim, sum, _total(input, dtype))


@both
def prod(input, dim=None, keepdim=False, *, dtype=None):
    return reduce(input, dim, keepdim, math.prod, _total(input, dtype))


def mean_of(row: list[Any]) -> Any:
    """Return the mean, NaN of nothing."""
    return sum(row) / len(row) if row else nan


@both
def mean(input, dim=None, keepdim=False, *, dtype=None):
    input = converted(input, dtype)
    kind = _needs_floats("mean", input)
    return reduce(input, dim, keepdim, mean_of, kind)


def _variance(correction: float) -> Row:
    def f(row: list[Any]) -> Any:
        if not row:
            return nan
        middle = sum(row) / len(row)
        squares = sum([(x - middle) * (x - middle) for x in row])
        n = max(len(row) - correction, 0)
        return squares / n if n else inf if squares > 0 else nan

    return f


def _correction(unbiased: Any, correction: Any) -> float:
    if correction is not None:
        return correction
    return 0 if unbiased is False else 1


def _spread(name: str, last: Callable[[float], float]) -> None:
    def compute(
        input, dim=None, unbiased=True, keepdim=False, *, correction=None
    ):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if input.dtype.kind < FLOAT:
            raise RuntimeError(
                "std and var only support floating point and complex dtypes"
            )
        variance = _variance(_correction(unbiased, correction))
        f = lambda row: last(variance(row))  # noqa: E731
        return reduce(input, dim, keepdim, f, input.dtype)

    compute.__name__ = name
    both(compute)


_spread("var", lambda x: x)
_spread("std", lambda x: math.sqrt(x) if x == x and x != inf else x)


@both
def cov(input, *, correction=1):
    x = reshape(input, (1, -1)) if len(input.shape) < 2 else input
    n = x.shape[1]
    apart = [[v - sum(row) / n for v in row] for row in rows(x, [1])]
    values = [
        sum(map(mul, a, b)) / max(n - correction, 0)
        for a in apart
        for b in apart
    ]
    shape = [len(apart)] * 2 if len(input.shape) == 2 else []
    return rounded(values, shape, input.dtype)


@function
def var_mean(
    input, dim=None, unbiased=True, keepdim=False, *, correction=None
):
    spread = METHODS["var"](
        input, dim, unbiased, keepdim, correction=correction
    )
    return spread, mean(input, dim, keepdim)


# Any, all, how many


@both
def any_(input, dim=None, keepdim=False):
    return reduce(input, dim, keepdim, any, bool_)


@both
def all_(input, dim=None, keepdim=False):
    return reduce(input, dim, keepdim, all, bool_)


@both
def count_nonzero(input, dim=None):
    count = lambda row: len(row) - row.count(0)  # noqa: E731
    return reduce(input, dim, False, count, int64)


# Largest and smallest


def largest(row: list[Any]) -> Any:
    """Return the largest element, or NaN if there is one."""
    total = sum(row)
    return _nan_or(row, max(row)) if total != total else max(row)


def smallest(row: list[Any]) -> Any:
    """Return the smallest element, or NaN if there is one."""
    total = sum(row)
    return _nan_or(row, min(row)) if total != total else min(row)


def _nan_or(row: list[Any], otherwise: Any) -> Any:
    for x in row:
        if x != x:
            return x
    return otherwise


def place_of(row: list[Any], x: Any) -> int:
    """Return the first index of an element, which may be NaN."""
    if x != x:
        return [y != y for y in row].index(True)
    return row.index(x)


def _not_empty(name: str, x: Tensor, dim: Any) -> None:
    if 0 not in [x.shape[d] for d in axes(dim, len(x.shape))]:
        return
    if dim is None or dim == ():
        error = RuntimeError if name in ("max", "min") else IndexError
        raise error(
            f"{name}(): Expected reduction dim to be specified for "
            "input.numel() == 0. Specify the reduction dim with the 'dim' "
            "argument."
        )
    if name.startswith("arg"):
        dim = axis(dim, len(x.shape))
    raise IndexError(
        f"{name}(): Expected reduction dim {dim} to have non-zero size."
    )


def _extreme(which: str, f: Row) -> None:
    pairs = namedtuple("pairs", "values indices")  # type: ignore[misc]
    pairs.__name__ = f"torch.return_types.{which}"

    def best(input, dim=(), keepdim=False):
        _not_empty(f"a{which}", input, dim)
        return reduce(input, dim, keepdim, f, input.dtype)

    def place(input, dim=None, keepdim=False):
        _not_empty(f"arg{which}", input, dim)
        at = lambda row: place_of(row, f(row))  # noqa: E731
        return reduce(input, dim, keepdim, at, int64)

    def both_of(input, dim=None, keepdim=False):
        if isinstance(dim, Tensor):
            return METHODS[f"{which}imum"](input, dim)
        _not_empty(which, input, dim)
        if dim is None:
            return best(input)
        return pairs(best(input, dim, keepdim), place(input, dim, keepdim))

    def running(input, dim):
        def positions(row: list[Any]) -> list[int]:
            found: list[int] = []
            for i, x in enumerate(row):
                last = found[-1] if found else 0
                found.append(i if f([x, row[last]]) == x or x != x else last)
            return found

        indices = along(input, dim, positions, int64)
        values = METHODS["gather"](input, dim, indices)
        return pairs(values, indices)

    names = f"a{which}", f"arg{which}", which, f"cum{which}"
    for g, name in zip((best, place, both_of, running), names, strict=True):
        g.__name__ = name
        both(g)


_extreme("max", largest)
_extreme("min", smallest)


# Order


def order_of(row: list[Any], descending: bool) -> list[int]:
    """Return the indices that sort a list; equal elements stay in order."""
    key: Any = row.__getitem__
    total = sum(row)
    if total != total:
        key = lambda i: (row[i] != row[i], 0 if row[i] != row[i] else row[i])  # noqa: E731
    return sorted(range(len(row)), key=key, reverse=descending)


_sorted = namedtuple("_sorted", "values indices")
_sorted.__name__ = "torch.return_types.sort"
_median = namedtuple("_median", "values indices")
_median.__name__ = "torch.return_types.median"
_top = namedtuple("_top", "values indices")
_top.__name__ = "torch.return_types.topk"


def _last_first(row: list[Any], descending: bool) -> list[int]:
    n = len(row)
    return [n - 1 - i for i in order_of(row[::-1], descending)]


@both
def argsort(input, dim=-1, descending=False, stable=False):
    f = lambda row: order_of(row, descending)  # noqa: E731
    return along(input, dim, f, int64)


@both
def sort(input, dim=-1, descending=False, stable=False):
    indices = argsort(input, dim, descending)
    if not input.shape:
        return _sorted(METHODS["clone"](input), indices)
    return _sorted(METHODS["gather"](input, dim, indices), indices)


@both
def topk(input, k, dim=-1, largest=True, sorted=True):
    d = axis(dim, len(input.shape))
    if not 0 <= k <= (input.shape[d] if input.shape else 1):
        raise RuntimeError("selected index k out of range")
    # Of equal elements PyTorch takes any, most often the last.
    f = lambda row: _last_first(row, largest)  # noqa: E731
    indices = along(input, dim, f, int64)
    values = METHODS["gather"](input, dim, indices) if input.shape else input
    if not input.shape:
        return _top(METHODS["clone"](values), indices)
    return _top(*(take(x, d, range(k)) for x in (values, indices)))


def unique(input, sorted=True, return_inverse=False, return_counts=False):
    values = elements(input)
    ordered = (values[i] for i in order_of(values, False))
    found = list(dict.fromkeys(ordered))
    places = {x: i for i, x in enumerate(found)}
    inverse = [places[x] for x in values]
    counts = [values.count(x) for x in found]
    return _found(input, found, inverse, counts, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False):
    groups = [(x, len(list(same))) for x, same in groupby(elements(input))]
    counts = [n for _, n in groups]
    inverse = [i for i, n in enumerate(counts) for _ in range(n)]
    found = [x for x, _ in groups]
    return _found(input, found, inverse, counts, return_inverse, return_counts)


both(unique)
both(unique_consecutive)


def _found(
    x: Tensor,
    found: list[Any],
    inverse: list[int],
    counts: list[int],
    with_inverse: bool,
    with_counts: bool,
) -> Any:
    results = [new(found, [len(found)], x.dtype)]
    if with_inverse:
        results.append(new(inverse, x.shape, int64))
    if with_counts:
        results.append(new(counts, [len(found)], int64))
    return results[0] if len(results) == 1 else tuple(results)


@both
def median(input, dim=None, keepdim=False):
    if dim is None:
        row = elements(input)
        at = order_of(row, False)[(len(row) - 1) // 2]
        return new([row[at]], (), input.dtype)
    d = axis(dim, len(input.shape))
    middle = (input.shape[d] - 1) // 2
    pair = (take(x, d, [middle]) for x in sort(input, d))
    return _median(*(x if keepdim else METHODS["squeeze"](x, d) for x in pair))


# Along an axis


@both
def cumsum(input, dim, *, dtype=None):
    f = lambda row: list(accumulate(row))  # noqa: E731
    return along(input, dim, f, _total(input, dtype))


@both
def cumprod(input, dim, *, dtype=None):
    f = lambda row: list(accumulate(row, mul))  # noqa: E731
    return along(input, dim, f, _total(input, dtype))


def _shifted(row: list[float]) -> tuple[float, list[float]]:
    """Return the maximum, and exp of the distance from it."""
    high = max(row)
    return high, [math.exp(x - high) for x in row]


def _softmax(row: list[float]) -> list[float]:
    if not row:
        return []
    _, exps = _shifted(row)
    total = sum(exps)
    return [x / total for x in exps]


def _logsumexp(row: list[float]) -> float:
    high = largest(row) if row else -inf
    if high - high != 0:
        return high
    return high + math.log(sum([math.exp(x - high) for x in row]))


def _log_softmax(row: list[float]) -> list[float]:
    high, exps = _shifted(row) if row else (0.0, [])
    total = math.log(sum(exps)) if row else 0.0
    return [x - high - total for x in row]


def _register_softmax(name: str, f: Row) -> None:
    def compute(input, dim, *, dtype=None):
        input = converted(input, dtype)
        if input.dtype.kind != FLOAT:
            raise NotImplementedError(
                f'"{name}_lastdim_kernel_impl" not implemented for '
                f"'{input.dtype.label}'"
            )
        return along(input, dim, f, input.dtype)

    compute.__name__ = name
    both(compute)


_register_softmax("softmax", _softmax)
_register_softmax("log_softmax", _log_softmax)


@both
def logsumexp(input, dim, keepdim=False):
    kind = input.dtype if input.dtype.kind == FLOAT else float32
    return reduce(input, dim, keepdim, _logsumexp, kind)


@both
def logcumsumexp(input, dim):
    f = lambda row: list(accumulate(row, lambda a, b: _logsumexp([a, b])))  # noqa: E731
    return along(input, dim, f, input.dtype)


# Norms


def norm_of(p: Any) -> Row:
    """Return the function that computes the p-norm of a list."""
    if p in (inf, "inf"):
        return lambda row: largest(list(map(abs, row))) if row else 0.0
    if p == -inf:
        return lambda row: smallest(list(map(abs, row)))
    if p == 0:
        return lambda row: float(len(row) - row.count(0))
    if p in (2, None, "fro"):
        return lambda row: math.hypot(*map(abs, row))  # slope 0 at 0
    return lambda row: sum([abs(x) ** p for x in row]) ** (1 / p)


@both
def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
    return linalg_vector_norm(
        input, 2 if p == "fro" else p, dim, keepdim, dtype=dtype
    )


@linalg
def linalg_vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    if x.dtype.kind < FLOAT:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor "
            f"as input. Got {x.dtype.label}"
        )
    x = converted(x, dtype)
    kind = REAL.get(x.dtype, x.dtype)
    return reduce(x, dim, keepdim, norm_of(ord), kind)


@linalg
def linalg_norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    from .errors import not_here

    several = isinstance(dim, tuple | list) and len(dim) == 2
    if ord not in (None, "fro") and (
        several or dim is None and len(A.shape) == 2
    ):
        raise not_here(f"torch.linalg.norm(ord={ord!r}) of a matrix")
    return linalg_vector_norm(
        A, 2 if ord in (None, "fro") else ord, dim, keepdim, dtype=dtype
    )


@linalg
def linalg_matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False):
    if len(A.shape) < 2:
        raise RuntimeError(
            "linalg.matrix_norm: The input tensor A must have at least 2 "
            "dimensions."
        )
    return linalg_norm(A, ord, dim, keepdim)


__all__ = ["BOOL", "COMPLEX", "reshape"]
