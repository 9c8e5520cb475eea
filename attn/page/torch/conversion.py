"""Convert tensors: to another dtype, to Python's numbers and lists."""

from __future__ import annotations

import math
from typing import Any

from .dtypes import COMPLEX, NAMES, REAL, bool_, dtype, float32
from .errors import not_here
from .names import METHODS, both, called, function, method
from .shapes import clone, expand, permuted
from .tensor import (
    Size,
    Tensor,
    alias,
    axis,
    device,
    elements,
    number,
    rounded,
    size_of,
    write,
)


@method
def to(input, *args, dtype=None, device=None, copy=False, non_blocking=False):
    from .tensor import device as cpu

    for x in args:
        if isinstance(x, Tensor):
            dtype = x.dtype
        elif isinstance(x, type(float32)):
            dtype = x
        elif isinstance(x, str | cpu):
            device = x
    cpu(device or "cpu")
    return convert(input, dtype or input.dtype, copy)


def convert(x: Tensor, kind: dtype, copy: bool = False) -> Tensor:
    """Return the tensor in a dtype, a copy unless it has it already."""
    if kind is x.dtype and not copy:
        return x
    values = elements(x)
    if x.dtype.kind == COMPLEX and kind.kind < COMPLEX:
        values = [v.real for v in values]
    return rounded(values, x.shape, kind)


def _register_dtype(name: str, kind: dtype) -> None:
    def compute(input):
        return convert(input, kind)

    compute.__name__ = name
    method(compute)


for _name in (
    *("float", "double", "half", "bfloat16", "long", "int", "short", "bool"),
    *("cfloat", "cdouble"),
):
    _register_dtype(_name, NAMES[_name])


@method
def type_as(input, other):
    return convert(input, other.dtype)


@method
def type_(input, dtype=None):
    if dtype is None:
        return f"torch.{input.dtype.label}Tensor"
    return convert(input, dtype)


METHODS["type"] = METHODS.pop("type_")


@method
def item(input):
    return number(input)


@method
def tolist(input):
    values = elements(input)
    if not input.shape:
        return values[0]
    for n in reversed(input.shape[1:]):
        count = len(values) // n if n else math.prod(input.shape[:-1])
        values = [values[i * n : (i + 1) * n] for i in range(count)]
    return list(values)


@method
def numpy(input):
    raise not_here("Tensor.numpy")


@method
def dim(input):
    return len(input.shape)


@method
def size(input, dim=None):
    shape = input.shape
    return shape if dim is None else shape[axis(dim, len(shape))]


@both
def numel(input):
    return math.prod(input.shape)


@method
def nelement(input):
    return math.prod(input.shape)


@method
def stride(input, dim=None):
    strides = input._strides
    return strides if dim is None else strides[axis(dim, len(strides))]


@method
def storage_offset(input):
    return input._start


@method
def element_size(input):
    return input.dtype.itemsize


@method
def data_ptr(input):
    return id(input._storage) + input._start * input.dtype.itemsize


@method
def get_device(input):
    return -1


@both
def is_floating_point(input):
    return input.dtype.is_floating_point


@both
def is_complex(input):
    return input.dtype.is_complex


@function
def is_tensor(obj):
    return isinstance(obj, Tensor)


@method
def detach(input):
    return alias(input, input.shape, input._strides)


@method
def cpu(input):
    return input


@method
def requires_grad_(input, requires_grad=True):
    input.requires_grad = requires_grad
    return input


# Memory


class Storage:
    """The memory that a tensor shares with its views."""

    def __init__(self, values: list[Any], itemsize: int) -> None:
        self.values, self.itemsize = values, itemsize

    def nbytes(self) -> int:
        """Return its size."""
        return len(self.values) * self.itemsize

    def data_ptr(self) -> int:
        """Return a number that is different for each memory."""
        return id(self.values)

    def clone(self) -> Storage:
        """Return a copy."""
        return Storage(list(self.values), self.itemsize)


@method
def untyped_storage(input):
    return Storage(input._storage, input.dtype.itemsize)


@method
def set_(input, source, storage_offset, size, stride):
    input._storage, input._start = source.values, storage_offset
    input.shape, input._strides = Size(size), tuple(stride)
    return input


@both
def as_strided(input, size, stride, storage_offset=None):
    return alias(input, size, tuple(stride), storage_offset)


# Overwrite


@method
def copy_(input, src):
    source = convert(expand(src, *input.shape), input.dtype)
    write(input, list(elements(source)))
    return input


@method
def fill_(input, value):
    value = number(value) if isinstance(value, Tensor) else value
    write(input, input.dtype.round([value]) * size_of(input.shape))
    return input


@method
def zero_(input):
    return fill_(input, 0)


def _property(name: str, f: Any) -> None:
    setattr(Tensor, name, property(f))


def _transposed(name: str) -> Any:
    """Return the function behind ``mT``, ``mH``, ``H`` and ``adjoint()``."""

    def compute(input):
        n = len(input.shape)
        if name == "H" and n not in (0, 2):
            raise RuntimeError(
                "tensor.H is only supported on matrices (2-D tensors). Got "
                f"{n}-D tensor."
                + " For batches of matrices, consider using tensor.mH"
                * (n > 2)
            )
        if n == 1 and name != "H":
            raise RuntimeError(
                f"tensor.{name} is only supported on matrices or batches of "
                f"matrices. Got {n}-D tensor."
            )
        last = range(max(n - 2, 0), n)
        return permuted(input, [*range(n - 2), *reversed(last)])

    return compute


METHODS["adjoint"] = _transposed("adjoint()")


def _real(x: Tensor) -> Tensor:
    if x.dtype.kind != COMPLEX:
        return x
    return rounded([v.real for v in elements(x)], x.shape, REAL[x.dtype])


def _imag(x: Tensor) -> Tensor:
    if x.dtype.kind != COMPLEX:
        raise RuntimeError(
            "imag is not implemented for tensors with non-complex dtypes."
        )
    return rounded([v.imag for v in elements(x)], x.shape, REAL[x.dtype])


for _name in ("mT", "mH", "H"):
    _property(_name, _transposed(_name))
_property("T", lambda x: permuted(x, range(len(x.shape))[::-1]))
_property("ndim", dim)
_property("data", detach)
_property("itemsize", element_size)
_property("nbytes", lambda x: x.dtype.itemsize * math.prod(x.shape))
_property("real", _real)
_property("imag", _imag)

__all__ = ["bool_", "called", "clone", "device", "METHODS"]
