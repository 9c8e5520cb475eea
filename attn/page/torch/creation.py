"""Make tensors: of Python numbers, of one number, of a range, at random."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .dtypes import (
    INT,
    bool_,
    dtype,
    float32,
    iinfo,
    int64,
    of_number,
    promote_types,
)
from .errors import said
from .names import function, method
from .shapes import expand, reshape, transpose
from .sizes import listed, size_of
from .tensor import Tensor, elements, is_number, new, rounded


@function
def tensor(data, *, dtype=None):
    values: list[Any] = []
    shape = _read(data, values, 0)
    kind = dtype
    for x in () if dtype else values:
        own = x.dtype if isinstance(x, Tensor) else of_number(x)
        kind = promote_types(kind or own, own)
    numbers = [elements(x)[0] if isinstance(x, Tensor) else x for x in values]
    return rounded(numbers, shape, kind or float32)


def _read(data: Any, values: list[Any], depth: int) -> tuple[int, ...]:
    """Add the numbers of nested lists to values; return their shape."""
    if is_number(data) or isinstance(data, Tensor) and not data.shape:
        values.append(data)
        return ()
    if isinstance(data, str):
        raise TypeError("new(): invalid data type 'str'")
    if not hasattr(data, "__len__"):
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    shapes = [_read(x, values, depth + 1) for x in data]
    size_of((len(values),))
    for shape, entry in zip(shapes, data, strict=True):
        if shape and shapes[0] and shape[0] != shapes[0][0]:
            raise said("nested_length", shapes[0][0], depth + 1, shape[0])
        if shape != shapes[0]:
            if not shape:
                raise TypeError("not a sequence")
            name = type(entry).__name__
            if isinstance(values[0], int):
                raise said("nested_type", name)
            raise TypeError(f"must be real number, not {name}")
    return (len(shapes), *(shapes[0] if shapes else ()))


@function
def as_tensor(data, dtype=None):
    if isinstance(data, Tensor) and dtype in (None, data.dtype):
        return data
    return tensor(data, dtype=dtype)


def filled(shape: tuple[int, ...], value: Any, kind: dtype | None) -> Tensor:
    """Make a tensor of one number, of float32 if no dtype is given."""
    kind = kind or float32
    if not isinstance(kind, dtype):
        raise said("no_dtype", type(kind).__name__)
    for n in shape:
        if n < 0:
            raise said("negative_size", n, list(shape))
    value = elements(value)[0] if isinstance(value, Tensor) else value
    return new(kind.round([value]) * size_of(tuple(shape)), shape, kind)


@function
def full(size, fill_value, *, dtype=None):
    kind = dtype or of_number(fill_value)
    return filled(listed((size,)), fill_value, kind)


@function
def full_like(input, fill_value, *, dtype=None):
    return filled(input.shape, fill_value, dtype or input.dtype)


@method
def new_full(input, size, fill_value, *, dtype=None):
    return filled(listed((size,)), fill_value, dtype or input.dtype)


@method
def new_tensor(input, data, *, dtype=None):
    return tensor(data, dtype=dtype or input.dtype)


_FILLING: list[Any] = []


@contextmanager
def filling(x: Any) -> Iterator[None]:
    """Let memory that is only allocated hold a number; else it holds NaN."""
    _FILLING.append(x)
    try:
        yield
    finally:
        _FILLING.pop()


def _unset(kind: dtype | None) -> Any:
    """Return what memory holds that is only allocated."""
    kind = kind or float32
    if _FILLING:
        return _FILLING[-1]
    if kind.kind == INT:
        return iinfo(kind).min
    return True if kind is bool_ else math.nan


def _constants(name: str, value: Any) -> None:
    def of(kind: dtype | None) -> Any:
        return _unset(kind) if value is None else value

    def make(*shape, size=(), dtype=None):
        shape = listed(shape or (size,))
        if name == "zeros" and min(shape, default=0) < 0:
            raise RuntimeError("zeros: Dimension size must be non-negative.")
        return filled(shape, of(dtype), dtype)

    def like(input, *, dtype=None):
        kind = dtype or input.dtype
        return filled(input.shape, of(kind), kind)

    def new_of(input, *size, dtype=None):
        kind = dtype or input.dtype
        return filled(listed(size), of(kind), kind)

    function(make, name)
    function(like, f"{name}_like")
    method(new_of, f"new_{name}")


_constants("zeros", 0)
_constants("ones", 1)
_constants("empty", None)


@function
def arange(start=0, end=None, step=1, *, dtype=None):
    if end is None:
        start, end = 0, start
    a, b, by = (
        elements(x)[0] if isinstance(x, Tensor) else x
        for x in (start, end, step)
    )
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if (b - a) * by < 0:
        raise said("range_sign")
    is_whole = all(isinstance(x, int) for x in (a, b, by))
    count = -(-(b - a) // by) if is_whole else math.ceil((b - a) / by)
    size_of((count,))
    values = [a + i * by for i in range(count)]
    kind = dtype or (int64 if is_whole else float32)
    return rounded(values, [count], kind)


def _divided(start: Any, end: Any, steps: int) -> list[float]:
    """Return so many numbers from start to end, symmetric in the rounding."""
    step = (end - start) / max(steps - 1, 1)
    half = (steps + 1) // 2
    first = [start + i * step for i in range(half)]
    return first + [end - i * step for i in reversed(range(steps - half))]


@function
def linspace(start, end, steps, *, dtype=None):
    return rounded(_divided(start, end, steps), [steps], dtype or float32)


@function
def logspace(start, end, steps, base=10.0, *, dtype=None):
    values = [math.pow(base, x) for x in _divided(start, end, steps)]
    return rounded(values, [steps], dtype or float32)


@function
def eye(n, m=None, *, dtype=None):
    columns = n if m is None else m
    size_of((n, columns))
    values = [i == j for i in range(n) for j in range(columns)]
    return rounded(values, [n, columns], dtype or float32)


@function
def meshgrid(*tensors, indexing="ij"):
    is_list = len(tensors) == 1 and not isinstance(tensors[0], Tensor)
    given = tensors[0] if is_list else tensors
    shape = [len(x) for x in given]
    grids = []
    for i, x in enumerate(given):
        own = [len(x) if j == i else 1 for j in range(len(shape))]
        grids.append(expand(reshape(x, own), shape))
    if indexing == "xy":
        grids = [transpose(x, 0, 1) for x in grids]
    return tuple(grids)


# At random, though not the numbers that PyTorch draws

CHANCE = random.Random(0)


@function
def manual_seed(seed):
    CHANCE.seed(int(seed))


def _draws(name: str, draw: Any) -> None:
    def make(*size, dtype=None):
        shape = listed(size)
        values = [draw() for _ in range(size_of(shape))]
        return rounded(values, shape, dtype or float32)

    def like(input, *, dtype=None):
        return make(*input.shape, dtype=dtype or input.dtype)

    function(make, name)
    function(like, f"{name}_like")


_draws("rand", CHANCE.random)
_draws("randn", lambda: CHANCE.gauss(0.0, 1.0))


@function
def randint(low, high, size=None, *, dtype=None):
    if size is None:
        low, high, size = 0, low, high
    shape = listed((size,))
    values = [CHANCE.randrange(low, high) for _ in range(size_of(shape))]
    return rounded(values, shape, dtype or int64)


@function
def randperm(n):
    return rounded(CHANCE.sample(range(n), n), [n], int64)
