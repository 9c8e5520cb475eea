"""Compute with the elements of two tensors, or a tensor and a number."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from .dtypes import (
    BOOL,
    FLOAT,
    bool_,
    combine,
    dtype,
    float32,
    float64,
    of_number,
    promote_types,
)
from .elementwise import FLOATS, apply, as_float
from .errors import said
from .names import METHODS, also, both
from .sizes import Size, broadcast_shapes
from .tensor import Tensor, elements, is_number, new, operand

inf, nan = math.inf, math.nan
Operation = Callable[[Any, Any], Any]


def result_type(*operands: Any) -> dtype:
    """Return the dtype in which tensors and numbers are computed together."""
    strong = weak = plain = None
    for x in operands:
        if not isinstance(x, Tensor):
            plain = promote_types(plain or bool_, of_number(x))
        elif x.shape:
            strong = promote_types(strong or x.dtype, x.dtype)
        else:
            weak = promote_types(weak or x.dtype, x.dtype)
    return combine(strong, combine(weak, plain)) or float32


def computed(
    op: Operation, a: Any, b: Any, common: dtype, result: dtype | None = None
) -> Tensor:
    """Apply an operation to each pair of elements, broadcast together.

    Args:
        op: of two Python numbers.
        a, b: tensors or numbers.
        common: the dtype in which they are computed.
        result: that of the result, if it is another.
    """
    shape = a.shape if isinstance(a, Tensor) else Size()
    other = b.shape if isinstance(b, Tensor) else Size()
    if shape != other:
        shape = broadcast_shapes(shape, other)
    xs, ys = operand(a, common, shape), operand(b, common, shape)
    values = list(map(op, xs if shape else [next(xs)], ys))
    return new((result or common).round(values), shape, result or common)


def common_type(name: str, a: Any, b: Any, numbers: bool = True) -> dtype:
    """Return the common dtype, or refuse what is neither tensor nor number."""
    if not (isinstance(b, Tensor) or numbers and is_number(b)):
        raise said("argument", name, "other", 2, type(b).__name__)
    return result_type(a, b)


def larger(a: Any, b: Any) -> Any:
    """Return the larger of two, or NaN."""
    return a if a > b or a != a else b


def smaller(a: Any, b: Any) -> Any:
    """Return the smaller of two, or NaN."""
    return a if a < b or a != a else b


def divided(a: Any, b: Any) -> Any:
    """Divide as IEEE 754 does."""
    try:
        return a / b
    except (OverflowError, ZeroDivisionError):
        if isinstance(a, complex) or a == 0 or a != a:
            return nan
        return math.copysign(inf, a) * math.copysign(1.0, b)


def _power(a: Any, b: Any) -> Any:
    """Raise to a power as C does."""
    try:
        return math.pow(a, b)
    except OverflowError:
        return -inf if a < 0 and b % 2 == 1 else inf
    except ValueError:
        if a:
            return nan
        return math.copysign(inf, a) if b % 2 == 1 else inf


def _whole_power(a: int, b: int) -> int:
    if b >= 0:
        return a**b
    return 0 if abs(a) != 1 else a if b % 2 else 1


def _logaddexp(a: float, b: float) -> float:
    if a == b and abs(a) == inf:
        return a
    high, low = (a, b) if a > b else (b, a)
    return high + math.log1p(math.exp(low - high))


def _logaddexp2(a: float, b: float) -> float:
    two = math.log(2)
    return _logaddexp(a * two, b * two) / two


def _xlogy(a: float, b: float) -> float:
    return b if b != b else a * apply(FLOATS["log"], [b])[0] if a else 0.0


def _keep(kind: dtype) -> dtype:
    return kind


def _register(
    name: str,
    op: Operation,
    result: Callable[[dtype], dtype] = _keep,
    *others: str,
    numbers: bool = True,
) -> Callable[..., Tensor]:
    """Register an operation on two tensors, or a tensor and a number."""

    def compute(input, other):
        common = result(common_type(name, input, other, numbers))
        return computed(op, input, other, common)

    return both(compute, *others, name=name)


def _halves(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the larger or smaller; of equal floats a half of each."""
    return lambda a, b: (
        a / 2 + b / 2 if a == b and isinstance(a, float) else f(a, b)
    )


_register("maximum", _halves(larger), numbers=False)
_register("minimum", _halves(smaller), numbers=False)
mul = _register("mul", operator.mul, _keep, "multiply")
_true_divide = _register("true_divide", divided, as_float)
_register("hypot", math.hypot, as_float)
_register("logaddexp", _logaddexp, as_float)
_register("logaddexp2", _logaddexp2, as_float)
_register("xlogy", _xlogy, as_float)


def _scaled(x: Any, alpha: Any) -> Any:
    if alpha == 1:
        return x
    return mul(x, alpha) if isinstance(x, Tensor) else x * alpha


@both
def add(input, other, *, alpha=1):
    common = common_type("add", input, other)
    return computed(operator.add, input, _scaled(other, alpha), common)


@also("subtract")
def sub(input, other, *, alpha=1):
    common = common_type("sub", input, other)
    given = (input, other)
    bools = [
        (x.dtype if isinstance(x, Tensor) else of_number(x)).kind == BOOL
        for x in given
    ]
    if all(bools):
        raise said("minus_bools")
    if any(bools):
        raise said("minus_a_bool")
    return computed(operator.sub, input, _scaled(other, alpha), common)


@also("divide")
def div(input, other, *, rounding_mode=None):
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode is None:
        return _true_divide(input, other)
    common = common_type("div", input, other)
    return METHODS["to"](METHODS["trunc"](_true_divide(input, other)), common)


def _modular(name: str, op: Operation) -> Callable[..., Tensor]:
    def compute(input, other):
        common = common_type(name, input, other)
        if common.kind < FLOAT:
            is_tensor = isinstance(other, Tensor)
            if 0 in (elements(other) if is_tensor else [other]):
                raise RuntimeError("ZeroDivisionError")
        return computed(op, input, other, common)

    return both(compute, name=name)


floor_divide = _modular(
    "floor_divide", lambda a, b: a // b if b else divided(a, b)
)
remainder = _modular("remainder", lambda a, b: a % b if b else nan)


@both
def pow_(self, exponent):
    common = result_type(self, exponent)
    if common.kind >= FLOAT:
        if is_number(self):
            (self,) = common.round([self])
        return computed(_power, self, exponent, common)
    if not isinstance(exponent, Tensor) and exponent < 0:
        raise said("negative_power")
    return computed(_whole_power, self, exponent, common)


@both
def float_power(self, exponent):
    return computed(_power, self, exponent, float64)
