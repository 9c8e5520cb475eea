"""Write results in place, and give tensors Python's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .dtypes import INT
from .names import METHODS, method
from .pairs import COMPARISONS
from .tensor import Tensor, elements, expand_to, is_number, places, write

IN_PLACE = """
exp expm1 log log2 sqrt rsqrt reciprocal sin cos tanh sigmoid relu abs square
floor ceil round neg add sub mul div pow remainder floor_divide clamp clip
nan_to_num lerp addcmul logical_and logical_or logical_not
logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not eq ne lt le gt ge
tril triu cumsum
""".split()
"""Methods that have a sibling with an underscore, which overwrites."""


def overwrite(x: Tensor, result: Tensor) -> Tensor:
    """Write a result into a tensor that can hold it."""
    if result.dtype.kind > x.dtype.kind:
        raise RuntimeError(
            f"result type {result.dtype.label} can't be cast to the desired "
            f"output type {x.dtype.label}"
        )
    if result.shape != x.shape:
        raise RuntimeError(
            f"output with shape {list(x.shape)} doesn't match the broadcast "
            f"shape {list(result.shape)}"
        )
    values = elements(result)
    write(x, values if result.dtype is x.dtype else x.dtype.round(values))
    return x


def _in_place(name: str) -> None:
    f = METHODS[name]

    def compute(input, *args, **kwargs):
        return overwrite(input, f(input, *args, **kwargs))

    compute.__name__ = f"{name}_"
    method(compute)


@method
def masked_fill_(input, mask, value):
    """Write the masked elements alone, as memory may be shared by others."""
    result = METHODS["masked_fill"](input, mask, value)
    if result.shape != input.shape:
        return overwrite(input, result)
    storage, values = input._storage, elements(result)
    axes = zip(input.shape, input._strides, strict=True)
    hidden = elements(expand_to(mask, input.shape))
    for i, m, v in zip(
        places([*axes], input._start), hidden, values, strict=True
    ):
        if m:
            storage[i] = v
    return input


def _operator(name: str, f: Callable[..., Any], is_reversed: bool) -> None:
    def apply(self: Tensor, other: Any) -> Any:
        if not (isinstance(other, Tensor) or is_number(other)):
            return NotImplemented
        return f(other, self) if is_reversed else f(self, other)

    setattr(Tensor, name, apply)


for _name in IN_PLACE:
    _in_place(_name)
for _name, _like in {
    **{x: x for x in ("add", "sub", "mul", "pow")},
    **{x: f"bitwise_{x}" for x in ("and", "or", "xor")},
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
}.items():
    _operator(f"__{_name}__", METHODS[_like], False)
    _operator(f"__r{_name}__", METHODS[_like], True)
    _operator(f"__i{_name}__", METHODS[f"{_like}_"], False)
for _name in COMPARISONS:
    _operator(f"__{_name}__", METHODS[_name], False)
for _name in ("neg", "abs"):
    setattr(Tensor, f"__{_name}__", METHODS[_name])


def _invert(self: Tensor) -> Tensor:
    if self.dtype.kind > INT:
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and "
            "Boolean-type tensors"
        )
    return METHODS["bitwise_not"](self)


def _positive(self: Tensor) -> Tensor:
    return self


def _matmul(self: Tensor, other: Any) -> Any:
    is_tensor = isinstance(other, Tensor)
    return METHODS["matmul"](self, other) if is_tensor else NotImplemented


Tensor.__matmul__ = _matmul  # type: ignore[attr-defined]
Tensor.__invert__ = _invert  # type: ignore[attr-defined]
Tensor.__pos__ = _positive  # type: ignore[attr-defined]
