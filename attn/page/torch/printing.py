"""Write a tensor as PyTorch prints it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .dtypes import (
    BOOL,
    COMPLEX,
    FLOAT,
    REAL,
    bool_,
    complex64,
    float32,
    int64,
)
from .tensor import Tensor, elements

WIDTH, EDGE, THRESHOLD = 80, 3, 1000


def text(x: Tensor) -> str:
    """Return ``tensor([[1., 2.]], dtype=torch.float64)``."""
    values = elements(x)
    short = len(values) > THRESHOLD
    shown = _shown(x) if short else values
    name = (
        "Parameter containing:\ntensor("
        if type(x) is not Tensor
        else "tensor("
    )
    indent = len("tensor(")
    if not values:
        size = f", size={tuple(x.shape)}" if len(x.shape) != 1 else ""
        body = f"[]{size}"
    else:
        body = _nested(x, indent, short, formatter(x, shown))
    usual = x.dtype in (float32, int64, bool_, complex64) and (
        values or x.dtype is float32
    )
    suffix = "" if usual else f", dtype={x.dtype}"
    if type(x) is not Tensor:
        suffix += ", requires_grad=True"
    return f"{name}{body}{suffix})"


def _shown(x: Tensor) -> list[Any]:
    """Return the elements at the edges, which alone are printed."""
    if not x.shape:
        return elements(x)
    n = x.shape[0]
    at = range(n) if n <= 2 * EDGE else [*range(EDGE), *range(n - EDGE, n)]
    return [v for i in at for v in _shown(list(x)[i])]


def formatter(x: Tensor, shown: list[Any]) -> Callable[[Any], str]:
    """Return a function that writes elements in the same width."""
    if x.dtype.kind == COMPLEX:
        parts = [
            _float_formatter([getattr(v, name) for v in shown])
            for name in ("real", "imag")
        ]

        def both_parts(v: Any) -> str:
            imaginary = parts[1](v.imag).lstrip() + "j"
            plus = "" if imaginary[0] in "+-" else "+"
            return parts[0](v.real) + plus + imaginary

        return both_parts
    if x.dtype.kind == FLOAT:
        return _float_formatter(shown)
    width = max(len(str(v)) for v in shown)
    return lambda v: str(v).rjust(width)


def _float_formatter(shown: list[float]) -> Callable[[float], str]:
    sizes = [abs(v) for v in shown if v and math.isfinite(v)]
    if not sizes:
        return lambda v: (
            f"{v:.0f}".rjust(1) + ("." if math.isfinite(v) else "")
        )
    low, high = min(sizes), max(sizes)
    whole = all(v == math.floor(v) for v in sizes)
    if high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4:
        form = ".4e"
    elif whole:
        form = ".0f"
    else:
        form = ".4f"

    def write(v: float) -> str:
        is_whole = form == ".0f" and math.isfinite(v)
        return f"{v:{form}}" + ("." if is_whole else "")

    finite = [v for v in shown if v and math.isfinite(v)]
    width = max(len(f"{v:{form}}") + (form == ".0f") for v in finite)
    return lambda v: write(v).rjust(width)


def _nested(
    x: Tensor, indent: int, short: bool, write: Callable[[Any], str]
) -> str:
    if not x.shape:
        return write(elements(x)[0])
    n = x.shape[0]
    cut = short and n > 2 * EDGE
    if len(x.shape) == 1:
        values = elements(x)
        if cut:
            words = [write(v) for v in values[:EDGE]] + [" ..."]
            words += [write(v) for v in values[-EDGE:]]
        else:
            words = [write(v) for v in values]
        width = max((len(w) for w in words if w != " ..."), default=1)
        each = max(1, (WIDTH - indent) // (width + 2))
        lines = [
            ", ".join(words[i : i + each]) for i in range(0, len(words), each)
        ]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    entries = list(x)
    if cut:
        parts = [_nested(y, indent + 1, short, write) for y in entries[:EDGE]]
        parts += ["..."]
        parts += [
            _nested(y, indent + 1, short, write) for y in entries[-EDGE:]
        ]
    else:
        parts = [_nested(y, indent + 1, short, write) for y in entries]
    between = "," + "\n" * (len(x.shape) - 1) + " " * (indent + 1)
    return "[" + between.join(parts) + "]"


__all__ = ["BOOL", "REAL"]
