"""Compute a function of each element of a tensor."""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from typing import Any

from .dtypes import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    REAL,
    bool_,
    dtype,
    finfo,
    float32,
)
from .errors import said
from .names import both
from .tensor import Tensor, elements, rounded

inf, nan = math.inf, math.nan
Function = Callable[[Any], Any]


def apply(f: Function, values: list[Any]) -> list[Any]:
    """Apply a function of ``math``; give infinities and NaN for its errors."""
    try:
        return list(map(f, values))
    except (OverflowError, ValueError, ZeroDivisionError):
        return [_careful(f, x) for x in values]


def _careful(f: Function, x: float) -> float:
    try:
        return f(x)
    except OverflowError:
        return math.copysign(inf, x) if f is math.sinh else inf
    except ZeroDivisionError:
        return math.copysign(inf, x)
    except ValueError:  # outside the domain, or at a pole
        is_pole = f in _LOGARITHMS and x == (-1 if f is math.log1p else 0)
        return -inf if is_pole else nan


def sigmoid(x: float) -> float:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0 if x == x else x


def _whole(f: Function) -> Function:
    return lambda x: math.copysign(f(x), x) if x - x == 0 else x


def _sign(x: Any) -> Any:
    return (x > 0) - (x < 0)


_LOGARITHMS = (math.log, math.log2, math.log10, math.log1p)
FLOATS: dict[str, Function] = {
    **{f.__name__: f for f in _LOGARITHMS},
    **{f.__name__: f for f in (math.exp, math.expm1, math.sqrt, math.erf)},
    **{f.__name__: f for f in (math.sin, math.cos, math.tan, math.asin)},
    **{f.__name__: f for f in (math.acos, math.atan)},
    **{f.__name__: f for f in (math.sinh, math.cosh, math.tanh)},
    "exp2": lambda x: math.pow(2.0, x),
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sigmoid": sigmoid,
}


def relu(x: Any) -> Any:
    """Return a number that is above 0, or NaN; else 0."""
    return x if x > 0 or x != x else 0


_SAME: dict[str, Function] = {
    "abs": abs,
    "square": lambda x: x * x,
    "sign": _sign,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "trunc": _whole(math.trunc),
    "relu": relu,
}
_TESTS: dict[str, Function] = {
    "isnan": lambda x: x != x,
    "isinf": lambda x: abs(x) == inf,
    "isfinite": lambda x: x - x == 0,
    "isposinf": lambda x: x == inf,
    "isneginf": lambda x: x == -inf,
    "logical_not": operator.not_,
}


def choose(is_first: Any, a: Any, b: Any) -> Any:
    """Return one of two elements."""
    return a if is_first else b


def as_float(kind: dtype) -> dtype:
    """Return the dtype of what is a float for integers, too."""
    return kind if kind.kind >= FLOAT else float32


def elementwise(
    name: str, f: Function, result: Callable[[dtype], dtype] = as_float
) -> Callable[[Tensor], Tensor]:
    """Make a function of a tensor of a function of a number.

    Args:
        name: that PyTorch gives it.
        f: of a Python number.
        result: the dtype of the result, from that of the tensor.
    """

    def compute(input):
        g = getattr(cmath, name, f) if input.dtype.kind == COMPLEX else f
        values = apply(g, elements(input))
        return rounded(values, input.shape, result(input.dtype))

    compute.__name__ = name
    return compute


for _name, _f in FLOATS.items():
    both(elementwise(_name, _f))
for _name, _f in _SAME.items():
    both(elementwise(_name, _f, lambda kind: REAL.get(kind, kind)))
for _name, _f in _TESTS.items():
    both(elementwise(_name, _f, lambda kind: bool_))


@both
def neg(input):
    if input.dtype.kind == BOOL:
        raise said("minus_bool")
    values = list(map(operator.neg, elements(input)))
    return rounded(values, input.shape, input.dtype)


@both
def bitwise_not(input):
    if input.dtype.kind > INT:
        raise said("no_tilde")
    f = operator.not_ if input.dtype.kind == BOOL else operator.invert
    values = list(map(f, elements(input)))
    return rounded(values, input.shape, input.dtype)


@both
def round_(input, *, decimals=0):
    f = lambda x: math.copysign(round(x, decimals), x)  # noqa: E731
    values = [f(x) if x - x == 0 else x for x in elements(input)]
    return rounded(values, input.shape, input.dtype)


@both
def nan_to_num(input, nan=None, posinf=None, neginf=None):
    if input.dtype.kind != FLOAT:
        return rounded(elements(input), input.shape, input.dtype)
    high = finfo(input.dtype).max if posinf is None else posinf
    low = -finfo(input.dtype).max if neginf is None else neginf
    special = {inf: high, -inf: low}
    values = [
        choose(x - x == 0, x, special.get(x, nan or 0.0))
        for x in elements(input)
    ]
    return rounded(values, input.shape, input.dtype)
