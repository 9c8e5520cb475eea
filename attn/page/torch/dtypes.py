"""Round Python numbers to the dtypes, and promote dtypes as PyTorch does."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable
from functools import lru_cache
from struct import pack, unpack
from typing import Any

from .errors import not_here, said

BOOL, INT, FLOAT, COMPLEX = range(4)


class dtype:
    """One of PyTorch's types of elements.

    Args:
        name: as in ``torch.float32``.
        label: in PyTorch's errors, ``Float``.
        c_name: in its errors about products, ``float``.
        kind: ``BOOL``, ``INT``, ``FLOAT`` or ``COMPLEX``.
        itemsize: bytes of an element.
        round: rounds Python numbers to this dtype, into a new list.
    """

    def __init__(
        self,
        name: str,
        label: str,
        c_name: str,
        kind: int,
        itemsize: int,
        round: Callable[[Iterable[Any]], list[Any]],
    ) -> None:
        self.name, self.label, self.c_name = name, label, c_name
        self.kind, self.itemsize, self.round = kind, itemsize, round
        self.is_floating_point = kind == FLOAT
        self.is_complex = kind == COMPLEX
        self.is_signed = kind != BOOL and name != "uint8"

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    @property
    def type(self) -> str:
        """The name of a tensor's type in PyTorch's errors."""
        if self.name == "bfloat16":
            return "CPUBFloat16Type"
        return f"torch.{self.label}Tensor"

    def __reduce__(self) -> str:
        return self.name


def _float64(values: Iterable[Any]) -> list[Any]:
    return list(map(float, values))


def _float32(values: Iterable[Any]) -> list[Any]:
    return array("f", values).tolist()


def _bfloat16(values: Iterable[Any]) -> list[Any]:
    """Round to float32 and then to its upper half, ties to even."""
    bits = memoryview(array("f", values)).cast("B").cast("I")
    upper = [(x + 0x7FFF + (x >> 16 & 1)) & 0xFFFF0000 for x in bits]
    return memoryview(array("I", upper)).cast("B").cast("f").tolist()


def _float16(values: Iterable[Any]) -> list[Any]:
    values = _float32(values)
    form = f"{len(values)}e"
    try:
        return list(unpack(form, pack(form, *values)))
    except OverflowError:
        return [_half(x) for x in values]


def _half(x: float) -> float:
    try:
        return unpack("e", pack("e", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def _integer(code: str) -> Callable[[Iterable[Any]], list[Any]]:
    bits = 8 * array(code).itemsize
    least = 0 if code.isupper() else -(2 ** (bits - 1))

    def wrapped(x: Any) -> int:
        try:
            return (int(x) - least) % 2**bits + least
        except (OverflowError, ValueError):  # infinity, NaN
            return least

    def convert(values: Iterable[Any]) -> list[Any]:
        values = list(values)
        try:
            whole = list(map(int, values))
            array(code, whole)
        except (OverflowError, ValueError):
            whole = [wrapped(x) for x in values]
        return whole

    return convert


def _bool(values: Iterable[Any]) -> list[Any]:
    return list(map(bool, values))


def joined(*parts: Any) -> complex:
    """Make a complex number: of its two parts, or of any number."""
    return complex(*parts)


def _c64(values: Iterable[Any]) -> list[Any]:
    pairs = _c128(values)
    parts = ([x.real for x in pairs], [x.imag for x in pairs])
    return list(map(complex, *map(_float32, parts)))


def _c128(values: Iterable[Any]) -> list[Any]:
    return list(map(joined, values))


def _no_elements(values: Iterable[Any]) -> list[Any]:
    if any(x == x and x != 0 for x in values):
        raise not_here("a tensor in 8-bit floats")
    return list(values)


float64 = dtype("float64", "Double", "double", FLOAT, 8, _float64)
float32 = dtype("float32", "Float", "float", FLOAT, 4, _float32)
float16 = dtype("float16", "Half", "c10::Half", FLOAT, 2, _float16)
bfloat16 = dtype("bfloat16", "BFloat16", "c10::BFloat16", FLOAT, 2, _bfloat16)
int64 = dtype("int64", "Long", "long int", INT, 8, _integer("q"))
int32 = dtype("int32", "Int", "int", INT, 4, _integer("i"))
int16 = dtype("int16", "Short", "short", INT, 2, _integer("h"))
int8 = dtype("int8", "Char", "signed char", INT, 1, _integer("b"))
uint8 = dtype("uint8", "Byte", "unsigned char", INT, 1, _integer("B"))
bool_ = dtype("bool", "Bool", "bool", BOOL, 1, _bool)
complex64 = dtype(
    "complex64", "ComplexFloat", "c10::complex<float>", COMPLEX, 8, _c64
)
complex128 = dtype(
    "complex128", "ComplexDouble", "c10::complex<double>", COMPLEX, 16, _c128
)

FLOAT8 = [
    dtype(name, name.capitalize(), name, FLOAT, 1, _no_elements)
    for name in ("float8_e4m3fn", "float8_e5m2")
]
"""Known by their size alone."""

NAMES = {
    **{x.name: x for x in (float64, float32, float16, bfloat16)},
    **{x.name: x for x in (int64, int32, int16, int8, uint8, bool_)},
    **{x.name: x for x in (complex64, complex128, *FLOAT8)},
    "double": float64,
    "float": float32,
    "half": float16,
    "long": int64,
    "int": int32,
    "short": int16,
    "cfloat": complex64,
    "cdouble": complex128,
}
"""Every dtype by the names that ``torch`` gives it."""

PYTHON = {bool: bool_, int: int64, float: float64}
"""Python's types, as names of dtypes."""

REAL = {complex64: float32, complex128: float64}


def of_number(x: Any) -> dtype:
    """Return the dtype of a tensor made of a Python number."""
    by_type = {bool: bool_, int: int64, float: float32, complex: complex64}
    return by_type[type(x)]


@lru_cache
def promote_types(type1: dtype, type2: dtype) -> dtype:
    """Return the smallest dtype that holds both."""
    high, low = sorted((type1, type2), key=lambda x: (-x.kind, -x.itemsize))
    if high is low or low.kind == BOOL:
        return high
    if high.kind == COMPLEX:
        return complex128 if low is float64 else high
    if high.kind == low.kind and high.itemsize == low.itemsize:
        return float32 if high.kind == FLOAT else int16
    return high


def combine(strong: dtype | None, weak: dtype | None) -> dtype | None:
    """Return the result's dtype, where only a higher kind of weak counts."""
    if strong is None or weak is None:
        return strong or weak
    return strong if strong.kind >= weak.kind else promote_types(strong, weak)


class finfo:
    """Limits of a float dtype."""

    _DIGITS = {"float64": (53, 1024), "float32": (24, 128)} | {
        **{"float16": (11, 16), "bfloat16": (8, 128)},
        **{"float8_e4m3fn": (4, 9), "float8_e5m2": (3, 16)},
    }

    def __init__(self, type: dtype = float32) -> None:
        type = REAL.get(type, type)
        if type.kind != FLOAT:
            raise said("finfo")
        digits, exponent = self._DIGITS[type.name]
        self.dtype, self.bits = type.name, 8 * type.itemsize
        self.eps = 2.0 ** (1 - digits)
        self.max = (2.0 - self.eps) * 2.0 ** (exponent - 1)
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0 ** (2 - exponent)


class iinfo:
    """Limits of an integer dtype."""

    def __init__(self, type: dtype) -> None:
        if type.kind != INT:
            raise said("iinfo")
        self.dtype, self.bits = type.name, 8 * type.itemsize
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0
        self.max = self.min + 2**self.bits - 1
