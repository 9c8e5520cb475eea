"""Make tensors: of Python numbers, of one number, of a range, at random."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .dtypes import (
    COMPLEX,
    INT,
    REAL,
    bool_,
    dtype,
    float32,
    iinfo,
    int64,
    of_number,
    promote_types,
)
from .names import FUNCTIONS, METHODS, function, method
from .shapes import permuted, reshape, sizes
from .tensor import Tensor, elements, is_number, new, rounded, size_of, write

_RANDOM = random.Random(0)


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
            raise ValueError(
                f"expected sequence of length {shapes[0][0]} at dim "
                f"{depth + 1} (got {shape[0]})"
            )
        if shape != shapes[0]:
            if not shape:
                raise TypeError("not a sequence")
            name = type(entry).__name__
            if isinstance(values[0], int):
                raise TypeError(
                    f"'{name}' object cannot be interpreted as an integer"
                )
            raise TypeError(f"must be real number, not {name}")
    return (len(shapes), *(shapes[0] if shapes else ()))


@function
def as_tensor(data, dtype=None):
    if isinstance(data, Tensor) and dtype in (None, data.dtype):
        return data
    return tensor(data, dtype=dtype)


FUNCTIONS["asarray"] = as_tensor


@function
def full(size, fill_value, *, dtype=None):
    shape = sizes((size,)) if not isinstance(size, int) else (size,)
    return _filled(shape, fill_value, dtype or of_number(fill_value))


def _filled(shape: tuple[int, ...], value: Any, kind: dtype | None) -> Tensor:
    kind = kind or float32
    if not isinstance(kind, dtype):
        raise TypeError(
            f"dtype must be torch.dtype, not {type(kind).__name__}"
        )
    for n in shape:
        if n < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {n}: "
                f"{list(shape)}"
            )
    value = elements(value)[0] if isinstance(value, Tensor) else value
    return new(kind.round([value]) * size_of(tuple(shape)), shape, kind)


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
        shape = sizes(shape or (size,))
        if name == "zeros" and min(shape, default=0) < 0:
            raise RuntimeError("zeros: Dimension size must be non-negative.")
        return _filled(shape, of(dtype), dtype)

    def like(input, *, dtype=None):
        kind = dtype or input.dtype
        return _filled(input.shape, of(kind), kind)

    def new_of(input, *size, dtype=None):
        kind = dtype or input.dtype
        return _filled(sizes(size), of(kind), kind)

    make.__name__, like.__name__ = name, f"{name}_like"
    new_of.__name__ = f"new_{name}"
    function(make)
    function(like)
    method(new_of)


_constants("zeros", 0)
_constants("ones", 1)
_constants("empty", None)


@function
def full_like(input, fill_value, *, dtype=None):
    return _filled(input.shape, fill_value, dtype or input.dtype)


@method
def new_full(input, size, fill_value, *, dtype=None):
    return _filled(sizes((size,)), fill_value, dtype or input.dtype)


@method
def new_tensor(input, data, *, dtype=None):
    return tensor(data, dtype=dtype or input.dtype)


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
        raise RuntimeError(
            "upper bound and lower bound inconsistent with step sign"
        )
    is_whole = all(isinstance(x, int) for x in (a, b, by))
    kind = dtype or (int64 if is_whole else float32)
    count = -(-(b - a) // by) if is_whole else math.ceil((b - a) / by)
    size_of((count,))
    return rounded([a + i * by for i in range(count)], [count], kind)


@function
def linspace(start, end, steps, *, dtype=None):
    step = (end - start) / (steps - 1) if steps > 1 else 0
    half = steps // 2
    values = [
        start + i * step if i < half else end - (steps - 1 - i) * step
        for i in range(steps)
    ]
    if steps == 1:
        values = [start]
    return rounded(values, [steps], dtype or float32)


@function
def logspace(start, end, steps, base=10.0, *, dtype=None):
    step = (end - start) / (steps - 1) if steps > 1 else 0
    values = [math.pow(base, start + i * step) for i in range(steps)]
    return rounded(values, [steps], dtype or float32)


@function
def eye(n, m=None, *, dtype=None):
    result = _filled((n, n if m is None else m), 0, dtype)
    diagonal = METHODS["diagonal"](result)
    write(diagonal, result.dtype.round([1]) * len(diagonal))
    return result


@function
def meshgrid(*tensors, indexing="ij"):
    given = (
        tensors[0]
        if len(tensors) == 1 and not isinstance(tensors[0], Tensor)
        else tensors
    )
    shape = [len(x) for x in given]
    grids = []
    for i, x in enumerate(given):
        own = [1] * len(given)
        own[i] = len(x)
        grids.append(METHODS["expand"](reshape(x, own), *shape))
    if indexing == "xy" and len(grids) > 1:
        order = [1, 0, *range(2, len(grids))]
        grids = [permuted(x, order) for x in grids]
    return tuple(grids)


# At random, though not the numbers that PyTorch draws


@function
def manual_seed(seed):
    _RANDOM.seed(int(seed))


def _draws(name: str, draw: Any) -> None:
    def make(*size, dtype=None):
        shape = sizes(size)
        values = [draw() for _ in range(size_of(shape))]
        return rounded(values, shape, dtype or float32)

    def like(input, *, dtype=None):
        return make(*input.shape, dtype=dtype or input.dtype)

    make.__name__, like.__name__ = name, f"{name}_like"
    function(make)
    function(like)


_draws("rand", lambda: _RANDOM.random())
_draws("randn", lambda: _RANDOM.gauss(0.0, 1.0))


@function
def randint(low, high, size=None, *, dtype=None):
    if size is None:
        low, high, size = 0, low, high
    shape = sizes((size,))
    values = [_RANDOM.randrange(low, high) for _ in range(size_of(shape))]
    return rounded(values, shape, dtype or int64)


@function
def randperm(n):
    order = list(range(n))
    _RANDOM.shuffle(order)
    return new(order, [n], int64)


# Complex numbers


@function
def complex_(real, imag):
    kinds = {small: big for big, small in REAL.items()}
    values = list(map(complex, elements(real), elements(imag)))
    return new(values, real.shape, kinds[real.dtype])


@function
def polar(abs, angle):
    times = METHODS["mul"]
    return complex_(
        times(abs, METHODS["cos"](angle)), times(abs, METHODS["sin"](angle))
    )


@function
def view_as_complex(input):
    """Return a copy, where PyTorch returns a view."""
    if input.dtype.name not in ("float32", "float64"):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double "
            f"tensors, but got a tensor of scalar type: {input.dtype.label}"
        )
    if input.shape[-1:] != (2,):
        raise RuntimeError("Tensor must have a last dimension of size 2")
    return complex_(*METHODS["unbind"](input, -1))


@function
def view_as_real(input):
    if input.dtype.kind != COMPLEX:
        raise RuntimeError(
            "view_as_real is only supported for complex tensors"
        )
    values = [part for x in elements(input) for part in (x.real, x.imag)]
    return new(values, [*input.shape, 2], REAL[input.dtype])
