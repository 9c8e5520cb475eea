"""Check one argument: its kind first, then its value.

Each function raises TypeError for a wrong kind and ValueError for a wrong
value; the message says what the argument must be, and what it is. A number of
NumPy is a number.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor


def tensor(name: str, x: Any, *, floating: bool = False) -> None:
    """Require a tensor; with ``floating``, of a real floating dtype."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{name} must be a torch.Tensor; got {type(x).__name__}"
        )
    if floating and not x.is_floating_point():
        raise TypeError(f"{name} must be a float tensor; got {x.dtype}")


def real(name: str, x: Any) -> None:
    """Require a tensor that is not complex."""
    tensor(name, x)
    if x.is_complex():
        raise TypeError(f"{name} must be real; got {x.dtype}")


def text(name: str, x: Any) -> None:
    """Require a string."""
    if not isinstance(x, str):
        raise TypeError(f"{name} must be a string; got {x!r}")


def function(name: str, x: Any) -> None:
    """Require what can be called."""
    if not callable(x):
        raise TypeError(f"{name} must be a function; got {x!r}")


def integer(name: str, x: Any) -> None:
    """Require an int, which may be a symbolic size while tracing."""
    if not _is_int(x):
        raise TypeError(f"{name} must be an int; got {x!r}")


def count(name: str, x: Any, least: int = 1) -> None:
    """Require an int, at least ``least``; a symbolic size is one."""
    is_int = _is_int(x)
    if is_int and not (isinstance(x, Integral) and int(x) < least):
        return
    error = ValueError if is_int else TypeError
    raise error(f"{name} must be an int, at least {least}; got {x!r}")


def number(name: str, x: Any, least: float = -math.inf) -> None:
    """Require a finite number."""
    is_number = isinstance(x, Real) and not isinstance(x, bool)
    if is_number and -math.inf < x < math.inf and x >= least:
        return
    more = "" if least == -math.inf else f", at least {least:g}"
    error = ValueError if is_number else TypeError
    raise error(f"{name} must be a finite number{more}; got {x!r}")


def positive(name: str, x: Any) -> None:
    """Require a finite number above 0."""
    number(name, x)
    if x <= 0:
        raise ValueError(f"{name} must be positive; got {x!r}")


def same_device(name: str, x: Tensor, other: str, like: Tensor) -> None:
    """Require two tensors on one device."""
    if x.device != like.device:
        raise ValueError(
            f"{name} must be on the device of {other}, {like.device}; got "
            f"{x.device}"
        )


def _is_int(x: Any) -> bool:
    if isinstance(x, Integral):
        return not isinstance(x, bool)
    # Sizes are symbols in a graph, and tensors where torch.jit traces it.
    return isinstance(x, torch.SymInt) or torch.jit.is_tracing()  # type: ignore[attr-defined]
