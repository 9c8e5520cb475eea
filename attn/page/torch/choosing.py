"""Compare tensors, and choose between their elements."""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import Any

from .dtypes import FLOAT, bool_
from .elementwise import choose
from .errors import said
from .names import FUNCTIONS, METHODS, also, both, function, short
from .pairs import (
    Operation,
    common_type,
    computed,
    larger,
    result_type,
    smaller,
)
from .sizes import broadcast_shapes
from .tensor import Tensor, elements, new, operand, rounded

inf = math.inf

COMPARISONS = {
    **{"eq": (), "ne": ("not_equal",), "lt": ("less",), "gt": ("greater",)},
    **{"le": ("less_equal",), "ge": ("greater_equal",)},
}
"""The comparisons, and their longer names."""


def _comparison(name: str, op: Operation) -> None:
    def compute(input, other):
        common = common_type(name, input, other)
        return computed(op, input, other, common, bool_)

    both(compute, *COMPARISONS[name], name=name)


for _name in COMPARISONS:
    _comparison(_name, getattr(operator, _name))


def _logical(name: str, op: Operation) -> None:
    def logical(input, other):
        a, b = (METHODS["bool"](x) for x in (input, other))
        return computed(op, a, b, bool_)

    def bitwise(input, other):
        common = common_type(f"bitwise_{name}", input, other)
        if common.kind >= FLOAT:
            raise said("no_bitwise", name, common.label)
        return computed(op, input, other, common)

    both(logical, name=f"logical_{name}")
    both(bitwise, name=f"bitwise_{name}")


for _name in ("and", "or", "xor"):
    _logical(_name, getattr(operator, f"__{_name}__"))


@both
def isclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    def near(a: Any, b: Any) -> bool:
        if a == b or equal_nan and a != a and b != b:
            return True
        return abs(b) < inf and abs(a - b) <= atol + rtol * abs(b)

    return computed(near, input, other, result_type(input, other), bool_)


@both
def allclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    return all(elements(isclose(input, other, rtol, atol, equal_nan)))


@both
def equal(input, other):
    pairs = map(operator.eq, elements(input), elements(other))
    return input.shape == other.shape and all(pairs)


# Choose


def _three(f: Any, a: Any, b: Any, c: Any, mask: Any = None) -> Tensor:
    """Apply a function to the elements of three, broadcast together.

    Args:
        f: of Python numbers.
        a, b, c: tensors or numbers; b and c are computed in one dtype.
        mask: the dtype of a, if it is another.
    """
    common = result_type(*((b, c) if mask else (a, b, c)))
    tensors = [x for x in (a, b, c) if isinstance(x, Tensor)]
    shape = broadcast_shapes(*(x.shape for x in tensors))
    xs = operand(a, mask or common, shape)
    ys, zs = (operand(x, common, shape) for x in (b, c))
    triples = zip(xs if shape else [next(xs)], ys, zs)  # noqa: B905
    return rounded([f(x, y, z) for x, y, z in triples], shape, common)


@function
def where(condition, input=None, other=None):
    if input is None:
        return METHODS["nonzero"](condition, as_tuple=True)
    if condition.dtype is not bool_:
        raise said("where_mask", condition.dtype.label)
    # choose is looked up at each call: a gradient is recorded by another.
    f = lambda m, a, b: choose(m, a, b)  # noqa: E731
    return _three(f, condition, input, other, bool_)


short(
    {"where": lambda input, condition, other: where(condition, input, other)},
    METHODS,
)


@both
def masked_fill(input, mask, value):
    if mask.dtype is not bool_:
        raise said("fill_mask", mask.dtype.c_name)
    if isinstance(value, Tensor):
        if value.shape:
            raise said("fill_axes", len(value.shape))
        (value,) = elements(value)
    (fitting,) = input.dtype.round([value])
    if abs(fitting) == inf and abs(value) < inf:
        raise said("fill_overflow", input.dtype.c_name)
    shape = broadcast_shapes(mask.shape, input.shape)
    values, hidden = (operand(x, x.dtype, shape) for x in (input, mask))
    if not shape:
        values, hidden = [next(values)], [next(hidden)]
    pairs = zip(values, hidden)  # noqa: B905
    filled = [choose(m, fitting, x) for x, m in pairs]
    return new(filled, shape, input.dtype)


@also("clip")
def clamp(input, min=None, max=None):
    if min is None and max is None:
        raise said("no_bounds")
    for f, bound in ((larger, min), (smaller, max)):
        if bound is not None:
            kind = result_type(input, bound)
            input = computed(partial(_bounded, f), input, bound, kind)
    return input


def _bounded(f: Operation, x: Any, bound: Any) -> Any:
    return x if x == bound else f(x, bound)  # which has a gradient


short(
    {
        "clamp_min": lambda input, min: clamp(input, min),
        "clamp_max": lambda input, max: clamp(input, None, max),
    },
    FUNCTIONS,
    METHODS,
)


@both
def lerp(input, end, weight):
    def between(a: float, b: float, w: float) -> float:
        return a + w * (b - a) if abs(w) < 0.5 else b - (b - a) * (1 - w)

    return _three(between, input, end, weight)


@both
def addcmul(input, tensor1, tensor2, *, value=1):
    f = lambda a, b, c: a + value * b * c  # noqa: E731
    return _three(f, input, tensor1, tensor2)
