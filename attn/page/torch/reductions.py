"""Reduce axes: sums, means, norms, the largest and smallest elements.

Sums are computed in float64 and rounded once: at least as exact as
PyTorch's, and not always equal to them in the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import mul
from typing import Any, NamedTuple

from .dtypes import FLOAT, REAL, bool_, dtype, float32, int64
from .elementwise import FLOATS, apply
from .errors import not_here, said
from .names import LINALG, METHODS, both, function, linalg
from .shapes import permuted
from .sizes import axes
from .tensor import Tensor, elements, rounded

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


def reduce(x: Tensor, dim: Any, keepdim: bool, f: Row, kind: dtype) -> Tensor:
    """Reduce the elements of axes to one with a function of a list."""
    dims = axes(dim, len(x.shape))
    values = [f(row) for row in rows(x, dims)]
    places = enumerate(x.shape)
    if keepdim:
        shape = [1 if d in dims else n for d, n in places]
    else:
        shape = [n for d, n in places if d not in dims]
    return rounded(values, shape, kind)


def converted(x: Tensor, kind: dtype | None) -> Tensor:
    """Return the tensor in a dtype, or itself if none is given."""
    if kind is None or kind is x.dtype:
        return x
    return rounded(elements(x), x.shape, kind)


def total_type(x: Tensor, kind: dtype | None) -> dtype:
    """Return the dtype of a sum: of integers, int64."""
    return kind or (int64 if x.dtype.kind < FLOAT else x.dtype)


@both
def sum_(input, dim=None, keepdim=False, *, dtype=None):
    return reduce(input, dim, keepdim, sum, total_type(input, dtype))


@both
def prod(input, dim=None, keepdim=False, *, dtype=None):
    return reduce(input, dim, keepdim, math.prod, total_type(input, dtype))


def mean_of(row: list[Any]) -> Any:
    """Return the mean, NaN of nothing."""
    return sum(row) / len(row) if row else nan


@both
def mean(input, dim=None, keepdim=False, *, dtype=None):
    x = converted(input, dtype)
    if x.dtype.kind < FLOAT:
        raise said("mean_dtype", x.dtype.label)
    return reduce(x, dim, keepdim, mean_of, x.dtype)


def _spread(name: str, last: Callable[[float], float]) -> None:
    def compute(
        input, dim=None, unbiased=True, keepdim=False, *, correction=None
    ):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if input.dtype.kind < FLOAT:
            raise said("spread_dtype")
        less = int(unbiased) if correction is None else correction

        def f(row: list[Any]) -> float:
            middle = mean_of(row)
            squares = sum([(x - middle) * (x - middle) for x in row])
            n = max(len(row) - less, 0)
            return last(squares / n if n else inf if squares > 0 else nan)

        return reduce(input, dim, keepdim, f, input.dtype)

    both(compute, name=name)


_spread("var", lambda x: x)
_spread("std", lambda x: math.sqrt(x) if x and x - x == 0 else x)


@function
def var_mean(input, dim=None, keepdim=False, *, correction=None):
    f = METHODS["var"]
    var = f(input, dim, keepdim=keepdim, correction=correction)
    return var, mean(input, dim, keepdim)


@both
def cov(input, *, correction=1):
    table = rows(input, [len(input.shape) - 1])
    apart = [[x - mean_of(row) for x in row] for row in table]
    n = input.shape[-1] - correction
    values = [sum(map(mul, a, b)) / n for a in apart for b in apart]
    return rounded(
        values, [len(apart)] * 2 * (len(input.shape) > 1), input.dtype
    )


def _test(f: Row) -> None:
    def compute(input, dim=None, keepdim=False):
        return reduce(input, dim, keepdim, f, bool_)

    both(compute, name=f.__name__)


_test(any)
_test(all)


@both
def count_nonzero(input, dim=None):
    def count(row: list[Any]) -> int:
        return len(row) - row.count(0)

    return reduce(input, dim, False, count, int64)


# Largest and smallest


def has_nan(row: list[Any]) -> bool:
    """Return whether an element is NaN, as the sum seldom is."""
    total = sum(row)
    return total != total and any(x != x for x in row)


def largest(row: list[Any]) -> Any:
    """Return the largest element, or NaN if there is one."""
    return nan if has_nan(row) else max(row)


def smallest(row: list[Any]) -> Any:
    """Return the smallest element, or NaN if there is one."""
    return nan if has_nan(row) else min(row)


def place_of(row: list[Any], x: Any) -> int:
    """Return the first index of an element, which may be NaN."""
    return [y != y for y in row].index(True) if x != x else row.index(x)


class _Pair(NamedTuple):
    values: Tensor
    indices: Tensor

    def __repr__(self) -> str:
        parts = f"values={self.values!r},\nindices={self.indices!r}"
        return f"{type(self).__name__}(\n{parts})"


def returned(name: str) -> type[_Pair]:
    """Return the type of a pair that a function returns."""
    return type(f"torch.return_types.{name}", (_Pair,), {})


def _extreme(which: str, f: Row) -> None:
    pair = returned(which)

    def shared(row: list[Any]) -> Any:
        found = f(row)  # of several, each has its part of the slope
        if not isinstance(found, float) or row.count(found) < 2:
            return found
        base = found if found - found == 0 else 0.0
        return base + mean_of([x - base for x in row if x == found])

    def best(input, dim=(), keepdim=False):
        return reduce(input, dim, keepdim, shared, input.dtype)

    def place(input, dim=None, keepdim=False):
        at = lambda row: place_of(row, f(row))  # noqa: E731
        return reduce(input, dim, keepdim, at, int64)

    def both_of(input, dim=None, keepdim=False):
        if isinstance(dim, Tensor):
            return METHODS[f"{which}imum"](input, dim)
        if dim is None:
            return best(input)
        first = reduce(input, dim, keepdim, f, input.dtype)
        return pair(first, place(input, dim, keepdim))

    names = f"a{which}", f"arg{which}", which
    for g, name in zip((best, place, both_of), names, strict=True):
        both(g, name=name)


_extreme("max", largest)
_extreme("min", smallest)


# Logarithms of sums, and norms


def _logsumexp(row: list[float]) -> float:
    high = largest(row) if row else -inf
    if high - high != 0:  # the slope of each infinity is NaN
        return apply(FLOATS["log"], [sum(apply(FLOATS["exp"], row))])[0]
    return high + math.log(sum([math.exp(x - high) for x in row]))


@both
def logsumexp(input, dim, keepdim=False):
    kind = input.dtype if input.dtype.kind == FLOAT else float32
    return reduce(input, dim, keepdim, _logsumexp, kind)


def _norm_of(p: Any) -> Row:
    """Return the function that computes the p-norm of a list."""
    if p == inf:
        return lambda row: largest(list(map(abs, row))) if row else 0.0
    if p == 2:
        # Unlike a root, it has the slope 0 at 0.
        return lambda row: nan if has_nan(row) else math.hypot(*map(abs, row))
    return lambda row: sum([abs(x) ** p for x in row]) ** (1 / p)


@linalg
def linalg_vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    if x.dtype.kind < FLOAT:
        raise said("norm_dtype", x.dtype.label)
    x = converted(x, dtype)
    kind = REAL.get(x.dtype, x.dtype)
    return reduce(x, dim, keepdim, _norm_of(ord), kind)


@linalg
def linalg_norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    is_matrix = len(axes(dim, len(A.shape))) == 2
    if is_matrix and ord not in (None, "fro"):
        raise not_here(f"torch.linalg.norm(ord={ord!r}) of a matrix")
    p = 2 if ord in (None, "fro") else ord
    return linalg_vector_norm(A, p, dim, keepdim, dtype=dtype)


@both
def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
    p = 2 if p in (None, "fro") else p
    return linalg_vector_norm(input, p, dim, keepdim, dtype=dtype)


def _matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False):
    return linalg_norm(A, ord, dim, keepdim)


LINALG["matrix_norm"] = _matrix_norm
