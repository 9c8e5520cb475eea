"""Write results in place, and give tensors Python's operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .choosing import COMPARISONS
from .errors import said
from .indexing import getitem, setitem
from .names import METHODS, method
from .printing import text
from .sizes import places
from .tensor import Tensor, elements, expand_to, is_number, number, write

IN_PLACE = (
    *("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "relu"),
    *("abs", "square", "floor", "ceil", "round", "neg", "reciprocal"),
    *("add", "sub", "mul", "div", "pow", "remainder", "floor_divide"),
    *("clamp", "clip", "nan_to_num", "lerp", "addcmul", "tril", "triu"),
    *("logical_and", "logical_or", "logical_not", "logical_xor"),
    *("bitwise_and", "bitwise_or", "bitwise_xor"),
)
"""Methods that have a sibling with an underscore, which overwrites."""


def overwrite(x: Tensor, result: Tensor) -> Tensor:
    """Write a result into a tensor that can hold it."""
    if result.dtype.kind > x.dtype.kind:
        raise said("in_place_dtype", result.dtype.label, x.dtype.label)
    if result.shape != x.shape:
        raise said("in_place_shape", list(x.shape), list(result.shape))
    values = elements(result)
    write(x, values if result.dtype is x.dtype else x.dtype.round(values))
    return x


def _in_place(name: str) -> None:
    f = METHODS[name]

    def compute(input, *args, **kwargs):
        return overwrite(input, f(input, *args, **kwargs))

    method(compute, f"{name}_")


@method
def masked_fill_(input, mask, value):
    """Write the masked elements alone, as memory may be shared by others."""
    result = METHODS["masked_fill"](input, mask, value)
    if result.shape != input.shape:
        return overwrite(input, result)
    axes = zip(input.shape, input._strides, strict=True)
    found = places([*axes], input._start)
    hidden = elements(expand_to(mask, input.shape))
    for i, m, v in zip(found, hidden, elements(result), strict=True):
        if m:
            input._storage[i] = v
    return input


def _operator(name: str, f: Callable[..., Any], is_reversed: bool) -> None:
    def apply(self: Tensor, other: Any) -> Any:
        if not (isinstance(other, Tensor) or is_number(other)):
            return NotImplemented
        return f(other, self) if is_reversed else f(self, other)

    setattr(Tensor, name, apply)


def _matmul(x: Tensor, other: Any) -> Any:
    is_tensor = isinstance(other, Tensor)
    return METHODS["matmul"](x, other) if is_tensor else NotImplemented


def _entries(x: Tensor) -> Iterator[Tensor]:
    if not x.shape:
        raise TypeError("iteration over a 0-d tensor")
    return (getitem(x, i) for i in range(x.shape[0]))


def _formatted(x: Tensor, form: str) -> str:
    return format(number(x), form) if not x.shape else str(x)


def _deep_copy(x: Tensor, memo: Any) -> Tensor:
    copy = METHODS["clone"](x)
    copy.__class__ = x.__class__
    return copy


for _name in IN_PLACE:
    _in_place(_name)
for _name, _like in {
    **{x: x for x in ("add", "sub", "mul", "pow")},
    **{x: f"bitwise_{x}" for x in ("and", "or", "xor")},
    **{"truediv": "div", "floordiv": "floor_divide", "mod": "remainder"},
}.items():
    _operator(f"__{_name}__", METHODS[_like], False)
    _operator(f"__r{_name}__", METHODS[_like], True)
    _operator(f"__i{_name}__", METHODS[f"{_like}_"], False)
for _name in COMPARISONS:
    _operator(f"__{_name}__", METHODS[_name], False)
for _name, _f in {
    **{"neg": METHODS["neg"], "abs": METHODS["abs"], "pos": lambda x: x},
    **{"invert": METHODS["bitwise_not"], "matmul": _matmul, "iter": _entries},
    **{"getitem": getitem, "setitem": setitem, "repr": text},
    **{"format": _formatted, "deepcopy": _deep_copy},
    "reversed": lambda x: METHODS["flip"](x, 0),
    "contains": lambda x, v: (
        (number(v) if isinstance(v, Tensor) else v) in elements(x)
    ),
}.items():
    setattr(Tensor, f"__{_name}__", _f)
