"""Write a tensor as PyTorch prints it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .dtypes import COMPLEX, FLOAT, bool_, complex64, float32, int64
from .tensor import Tensor, elements

WIDTH, EDGE, THRESHOLD = 80, 3, 1000
Writer = Callable[[Any], str]


def text(x: Tensor) -> str:
    """Return ``tensor([[1., 2.]], dtype=torch.float64)``."""
    edge = EDGE if math.prod(x.shape) > THRESHOLD else max(x.shape, default=1)
    if math.prod(x.shape):
        body = _nested(x, 7, edge, _writer(x, _shown(x, edge)))
        usual = [float32, int64, bool_, complex64]
    else:
        body = f"[], size={tuple(x.shape)}" if len(x.shape) != 1 else "[]"
        usual = [float32]
    suffix = "" if x.dtype in usual else f", dtype={x.dtype}"
    if type(x) is Tensor:
        return f"tensor({body}{suffix})"
    return f"Parameter containing:\ntensor({body}{suffix}, requires_grad=True)"


def _at_edges(entries: list[Any], edge: int, cut: Any = None) -> list[Any]:
    """Return the first and the last entries, with a sign between them."""
    if len(entries) <= 2 * edge:
        return entries
    return entries[:edge] + ([cut] if cut else []) + entries[-edge:]


def _shown(x: Tensor, edge: int) -> list[Any]:
    if not x.shape:
        return elements(x)
    return [v for y in _at_edges(list(x), edge) for v in _shown(y, edge)]


def _writer(x: Tensor, shown: list[Any]) -> Writer:
    """Return a function that writes each element in the same width."""
    if x.dtype.kind == COMPLEX:
        real, imag = (
            _float_writer([getattr(v, name) for v in shown])
            for name in ("real", "imag")
        )

        def both(v: complex) -> str:
            end = imag(v.imag).lstrip() + "j"
            return real(v.real) + ("" if end[0] in "+-" else "+") + end

        return both
    if x.dtype.kind == FLOAT:
        return _float_writer(shown)
    width = max(len(str(v)) for v in shown)
    return lambda v: str(v).rjust(width)


def _float_writer(shown: list[float]) -> Writer:
    finite = [v for v in shown if v and math.isfinite(v)]
    form = ".0f"
    if finite:
        low, high = min(map(abs, finite)), max(map(abs, finite))
        if high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4:
            form = ".4e"
        elif any(v != math.floor(v) for v in finite):
            form = ".4f"

    def write(v: float) -> str:
        point = "." if form == ".0f" and math.isfinite(v) else ""
        return f"{v:{form}}{point}"

    width = max((len(write(v)) for v in finite), default=1)
    return lambda v: write(v).rjust(width)


def _nested(x: Tensor, indent: int, edge: int, write: Writer) -> str:
    if not x.shape:
        return write(elements(x)[0])
    margin = " " * (indent + 1)
    if len(x.shape) == 1:
        words = _at_edges([write(v) for v in elements(x)], edge, " ...")
        each = max(1, (WIDTH - indent) // (max(map(len, words)) + 2))
        lines = [words[i : i + each] for i in range(0, len(words), each)]
        return "[" + f",\n{margin}".join(map(", ".join, lines)) + "]"
    rows = _at_edges(list(x), edge, "...")
    parts = [
        y if isinstance(y, str) else _nested(y, indent + 1, edge, write)
        for y in rows
    ]
    return "[" + ("," + "\n" * (len(x.shape) - 1) + margin).join(parts) + "]"
