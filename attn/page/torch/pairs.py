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
from .elementwise import apply, as_float, choose
from .names import METHODS, both, function, method
from .tensor import (
    Size,
    Tensor,
    broadcast_shapes,
    elements,
    is_number,
    new,
    operand,
    rounded,
)

inf, nan = math.inf, math.nan
Operation = Callable[[Any, Any], Any]


def result_type(*operands):
    strong = weak = plain = None
    for x in operands:
        if not isinstance(x, Tensor):
            plain = promote_types(plain or bool_, of_number(x))
        elif x.shape:
            strong = promote_types(strong or x.dtype, x.dtype)
        else:
            weak = promote_types(weak or x.dtype, x.dtype)
    return combine(strong, combine(weak, plain)) or float32


def pair(
    op: Operation, a: Any, b: Any, common: dtype
) -> tuple[list[Any], Size]:
    """Apply an operation to each pair of elements, broadcast together."""
    shape = a.shape if isinstance(a, Tensor) else Size()
    other = b.shape if isinstance(b, Tensor) else Size()
    if shape != other:
        shape = broadcast_shapes(shape, other)
    xs, ys = operand(a, common, shape), operand(b, common, shape)
    return list(map(op, xs if shape else [next(xs)], ys)), shape


def common_type(name: str, a: Any, b: Any, numbers: bool = True) -> dtype:
    """Return the common dtype, or refuse what is neither tensor nor number."""
    if not (isinstance(b, Tensor) or numbers and is_number(b)):
        raise TypeError(
            f"{name}(): argument 'other' (position 2) must be Tensor, "
            f"not {type(b).__name__}"
        )
    return result_type(a, b)


def _larger(a: Any, b: Any) -> Any:
    return a if a > b or a != a else b


def _smaller(a: Any, b: Any) -> Any:
    return a if a < b or a != a else b


def _divide(a: Any, b: Any) -> Any:
    """Divide as IEEE 754 does."""
    try:
        return a / b
    except (OverflowError, ZeroDivisionError):
        if isinstance(a, complex) or a == 0 or a != a:
            return nan
        return math.copysign(inf, a) * math.copysign(1.0, b)


def _floor(a: Any, b: Any) -> Any:
    return a // b if b else _divide(a, b)


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


def _logaddexp(a: float, b: float) -> float:
    if a == b and abs(a) == inf:
        return a
    high, low = (a, b) if a > b else (b, a)
    return high + math.log1p(math.exp(low - high))


def _logaddexp2(a: float, b: float) -> float:
    return _logaddexp(a * math.log(2), b * math.log(2)) / math.log(2)


def _fmod(a: float, b: float) -> float:
    return math.fmod(a, b) if b and a - a == 0 else nan


def _whole_power(a: int, b: int) -> int:
    if b >= 0:
        return a**b
    return 0 if abs(a) != 1 else a if b % 2 else 1


def _xlogy(a: float, b: float) -> float:
    return b if b != b else a * apply(math.log, [b])[0] if a else 0.0


def _keep(kind: dtype) -> dtype:
    return kind


def _register(
    name: str,
    op: Operation,
    result: Callable[[dtype], dtype] = _keep,
    *aliases: str,
) -> Callable[..., Tensor]:
    def compute(input, other):
        numbers = name not in ("maximum", "minimum")
        common = result(common_type(name, input, other, numbers))
        values, shape = pair(op, input, other, common)
        return rounded(values, shape, common)

    compute.__name__ = name
    return both(compute, *aliases)


_register("maximum", _larger)
_register("minimum", _smaller)
mul = _register("mul", operator.mul, _keep, "multiply")
_true_divide = _register("true_divide", _divide, as_float)
_register("fmod", _fmod)
_register("atan2", math.atan2, as_float)
_register("hypot", math.hypot, as_float)
_register("logaddexp", _logaddexp, as_float)
_register("logaddexp2", _logaddexp2, as_float)
_register("xlogy", _xlogy, as_float)


def _scaled(x: Any, alpha: Any) -> Any:
    if alpha == 1:
        return x
    return mul(x, alpha) if isinstance(x, Tensor) else x * alpha


def add(input, other, *, alpha=1):
    common = common_type("add", input, other)
    values, shape = pair(operator.add, input, _scaled(other, alpha), common)
    return rounded(values, shape, common)


def sub(input, other, *, alpha=1):
    common = common_type("sub", input, other)
    kinds = [
        (x.dtype if isinstance(x, Tensor) else of_number(x)).kind
        for x in (input, other)
    ]
    if BOOL in kinds:
        if kinds == [BOOL, BOOL]:
            which = "two bool tensors"
            instead = "Use the `^` or `logical_xor()`"
        else:
            which = "a bool tensor"
            instead = (
                "If you are trying to invert a mask, use the `~` or "
                "`logical_not()`"
            )
        raise RuntimeError(
            f"Subtraction, the `-` operator, with {which} is not supported. "
            f"{instead} operator instead."
        )
    values, shape = pair(operator.sub, input, _scaled(other, alpha), common)
    return rounded(values, shape, common)


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
            divisors = (
                elements(other) if isinstance(other, Tensor) else [other]
            )
            if 0 in divisors:
                raise RuntimeError("ZeroDivisionError")
        values, shape = pair(op, input, other, common)
        return rounded(values, shape, common)

    compute.__name__ = name
    return both(compute)


floor_divide = _modular("floor_divide", _floor)
remainder = _modular("remainder", lambda a, b: a % b if b else nan)
both(add)
both(sub, "subtract")
both(div, "divide")


@both
def pow_(self, exponent):
    common = result_type(self, exponent)
    if common.kind >= FLOAT:
        if is_number(self):
            (self,) = common.round([self])
        values, shape = pair(_power, self, exponent, common)
        return rounded(values, shape, common)
    if not isinstance(exponent, Tensor) and exponent < 0:
        raise RuntimeError(
            "Integers to negative integer powers are not allowed."
        )
    values, shape = pair(_whole_power, self, exponent, common)
    return rounded(values, shape, common)


@both
def float_power(self, exponent):
    values, shape = pair(_power, self, exponent, float64)
    return rounded(values, shape, float64)


COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


_LONG_NAMES = {
    **{"eq": [], "ne": ["not_equal"], "lt": ["less"], "gt": ["greater"]},
    **{"le": ["less_equal"], "ge": ["greater_equal"]},
}


def _comparison(name: str) -> None:
    op = getattr(operator, name)

    def compute(input, other):
        values, shape = pair(op, input, other, common_type(name, input, other))
        return new(values, shape, bool_)

    compute.__name__ = name
    both(compute, *_LONG_NAMES[name])


for _name in COMPARISONS:
    _comparison(_name)


def _logical(name: str) -> None:
    op = getattr(operator, f"__{name}__")

    def logical(input, other):
        a, b = (METHODS["bool"](x) for x in (input, other))
        values, shape = pair(op, a, b, bool_)
        return new(values, shape, bool_)

    def bitwise(input, other):
        common = common_type(f"bitwise_{name}", input, other)
        if common.kind >= FLOAT:
            raise NotImplementedError(
                f"\"bitwise_{name}_cpu\" not implemented for '{common.label}'"
            )
        values, shape = pair(op, input, other, common)
        return rounded(values, shape, common)

    logical.__name__, bitwise.__name__ = f"logical_{name}", f"bitwise_{name}"
    both(logical)
    both(bitwise)


for _name in ("and", "or", "xor"):
    _logical(_name)


@both
def isclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    def near(a: Any, b: Any) -> bool:
        if a == b or equal_nan and a != a and b != b:
            return True
        return abs(b) < inf and abs(a - b) <= atol + rtol * abs(b)

    values, shape = pair(near, input, other, result_type(input, other))
    return new(values, shape, bool_)


@both
def allclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    return all(elements(isclose(input, other, rtol, atol, equal_nan)))


@both
def equal(input, other):
    return input.shape == other.shape and all(
        map(operator.eq, elements(input), elements(other))
    )


@function
def where(condition, input=None, other=None):
    if input is None:
        return METHODS["nonzero"](condition, as_tuple=True)
    if condition.dtype is not bool_:
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a "
            f"tensor with dtype {condition.dtype.label}"
        )
    common = result_type(input, other)
    given = (condition, input, other)
    shape = broadcast_shapes(
        *(x.shape for x in given if isinstance(x, Tensor))
    )
    yes, no = operand(input, common, shape), operand(other, common, shape)
    mask = operand(condition, bool_, shape)
    triples = zip(mask if shape else [next(mask)], yes, no)  # noqa: B905
    chosen = [choose(m, a, b) for m, a, b in triples]
    return rounded(chosen, shape, common)


def _three(f: Callable[..., Any], *given: Any) -> Tensor:
    """Apply a function to the elements of three, broadcast together."""
    common = result_type(*given)
    shape = broadcast_shapes(
        *(x.shape for x in given if isinstance(x, Tensor))
    )
    a, b, c = (operand(x, common, shape) for x in given)
    return rounded(
        list(map(f, a if shape else [next(a)], b, c)), shape, common
    )


@method
def _where(input, condition, other):
    return where(condition, input, other)


METHODS["where"] = METHODS.pop("_where")


@both
def masked_fill(input, mask, value):
    if mask.dtype is not bool_:
        raise RuntimeError(
            "masked_fill_ only supports boolean masks, but got mask with "
            f"dtype {mask.dtype.c_name}"
        )
    if isinstance(value, Tensor):
        if value.shape:
            raise RuntimeError(
                "masked_fill_ only supports a 0-dimensional value tensor, but "
                f"got tensor with {len(value.shape)} dimension(s)."
            )
        (value,) = elements(value)
    (fitting,) = input.dtype.round([value])
    if abs(fitting) == inf and abs(value) < inf:
        raise RuntimeError(
            f"value cannot be converted to type {input.dtype.c_name} without "
            "overflow"
        )
    value = fitting
    shape = broadcast_shapes(mask.shape, input.shape)
    values, hidden = (operand(x, x.dtype, shape) for x in (input, mask))
    if not shape:
        values, hidden = [next(values)], [next(hidden)]
    filled = [choose(m, value, x) for x, m in zip(values, hidden)]  # noqa: B905
    return new(filled, shape, input.dtype)


def clamp(input, min=None, max=None):
    if min is None and max is None:
        raise RuntimeError(
            "torch.clamp: At least one of 'min' or 'max' must not be None"
        )
    for f, bound in ((_larger, min), (_smaller, max)):
        if bound is not None:
            common = result_type(input, bound)
            values, shape = pair(f, input, bound, common)
            input = rounded(values, shape, common)
    return input


both(clamp, "clip")


@both
def clamp_min(input, min):
    return clamp(input, min)


@both
def clamp_max(input, max):
    return clamp(input, None, max)


@both
def lerp(input, end, weight):
    def between(a: float, b: float, w: float) -> float:
        return a + w * (b - a) if abs(w) < 0.5 else b - (b - a) * (1 - w)

    return _three(between, input, end, weight)


@both
def addcdiv(input, tensor1, tensor2, *, value=1):
    return _three(
        lambda a, b, c: a + value * _divide(b, c), input, tensor1, tensor2
    )


@both
def addcmul(input, tensor1, tensor2, *, value=1):
    return _three(lambda a, b, c: a + value * b * c, input, tensor1, tensor2)
