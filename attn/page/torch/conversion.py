"""Convert tensors: to another dtype, to Python's numbers and lists."""

from __future__ import annotations

import math
from typing import Any

from .dtypes import COMPLEX, NAMES, PYTHON, REAL, dtype
from .errors import not_here, said
from .names import FUNCTIONS, METHODS, function, method, short
from .shapes import expand, permuted
from .sizes import Size, axis, size_of
from .tensor import Tensor, alias, device, elements, number, rounded, write


def convert(x: Tensor, kind: dtype, copy: bool = False) -> Tensor:
    """Return the tensor in a dtype, a copy unless it has it already."""
    if kind is x.dtype and not copy:
        return x
    values = elements(x)
    if x.dtype.kind == COMPLEX and kind.kind < COMPLEX:
        values = [v.real for v in values]
    return rounded(values, x.shape, kind)


def _to(input, *args, dtype=None, device=None, copy=False, non_blocking=None):
    kind = dtype or input.dtype
    for x in (*args, device):
        if isinstance(x, Tensor):
            kind = x.dtype
        elif isinstance(x, _KIND):
            kind = x
        elif isinstance(x, type):
            kind = PYTHON[x]
        elif x is not None and not isinstance(x, bool):
            _device(x)
    return convert(input, kind, copy)


_KIND, _device = dtype, device
short({"to": _to}, METHODS)


def _conversion(name: str, kind: dtype) -> None:
    short({name: lambda input: convert(input, kind)}, METHODS)


for _name in (
    *("float", "double", "half", "bfloat16", "cfloat"),
    *("long", "int", "short", "bool"),
):
    _conversion(_name, NAMES[_name])


@method
def tolist(input):
    values = elements(input)
    if not input.shape:
        return values[0]
    for n in reversed(input.shape[1:]):
        count = len(values) // n if n else math.prod(input.shape[:-1])
        values = [values[i * n : (i + 1) * n] for i in range(count)]
    return list(values)


def _of_axis(values: Any, dim: int | None) -> Any:
    return values if dim is None else values[axis(dim, len(values))]


def _numpy(input):
    raise not_here("Tensor.numpy")


def _type(input, dtype=None):
    if dtype is None:
        return f"torch.{input.dtype.label}Tensor"
    return convert(input, dtype)


short(
    {
        "item": lambda input: number(input),
        "numpy": _numpy,
        "type": _type,
        "type_as": lambda input, other: convert(input, other.dtype),
        "dim": lambda input: len(input.shape),
        "size": lambda input, dim=None: _of_axis(input.shape, dim),
        "stride": lambda input, dim=None: _of_axis(input._strides, dim),
        "storage_offset": lambda input: input._start,
        "element_size": lambda input: input.dtype.itemsize,
        "data_ptr": lambda input: id(input._storage) + input._start,
        "get_device": lambda input: -1,
        "cpu": lambda input: input,
        "detach": lambda x: alias(x, x.shape, x._strides),
    },
    METHODS,
)
short(
    {
        "numel": lambda input: math.prod(input.shape),
        "is_floating_point": lambda input: input.dtype.is_floating_point,
        "is_complex": lambda input: input.dtype.is_complex,
    },
    FUNCTIONS,
    METHODS,
)


@function
def is_tensor(obj):
    return isinstance(obj, Tensor)


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


# Properties


def _transposed(name: str) -> Any:
    """Return the function behind ``mT``, ``mH`` and ``H``."""

    def compute(x: Tensor) -> Tensor:
        n = len(x.shape)
        if name == "H" and n not in (0, 2):
            raise said("no_matrix" if n == 1 else "matrices", n)
        if n == 1:
            raise said("transposed_axes", name, n)
        last = range(max(n - 2, 0), n)
        return permuted(x, [*range(n - 2), *reversed(last)])

    return compute


def _part(name: str) -> Any:
    """Return the function behind ``real`` and ``imag``."""

    def compute(x: Tensor) -> Tensor:
        if x.dtype.kind == COMPLEX:
            values = [getattr(v, name) for v in elements(x)]
            return rounded(values, x.shape, REAL[x.dtype])
        if name == "imag":
            raise said("no_imag")
        return x

    return compute


for _name, _f in {
    **{name: _transposed(name) for name in ("mT", "mH", "H")},
    **{name: _part(name) for name in ("real", "imag")},
    "T": lambda x: permuted(x, range(len(x.shape))[::-1]),
    "ndim": lambda x: len(x.shape),
    "data": lambda x: alias(x, x.shape, x._strides),
    "itemsize": lambda x: x.dtype.itemsize,
    "nbytes": lambda x: x.dtype.itemsize * math.prod(x.shape),
}.items():
    setattr(Tensor, _name, property(_f))
