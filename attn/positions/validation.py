"""Check the kind of one argument: a tensor, a count, a number."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def tensor(name: str, x: Any) -> None:
    """Require a tensor that is not complex."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{name} must be a torch.Tensor; got {type(x).__name__}"
        )
    if x.is_complex():
        raise TypeError(f"{name} must be real; got {x.dtype}")


def integer(name: str, x: Any) -> None:
    """Require an int, which may be a symbolic size while tracing."""
    if torch.jit.is_tracing():  # type: ignore[attr-defined]
        return  # sizes are tensors there
    if isinstance(x, bool) or not isinstance(x, int | torch.SymInt):
        raise TypeError(f"{name} must be an int; got {x!r}")


def count(name: str, x: Any, least: int = 1) -> None:
    """Require an int that counts something."""
    integer(name, x)
    if x < least:
        raise ValueError(f"{name} must be {least} or more; got {x}")


def number(name: str, x: Any) -> None:
    """Require a finite number."""
    is_number = isinstance(x, int | float) and not isinstance(x, bool)
    if not is_number or not math.isfinite(x):
        raise TypeError(f"{name} must be a finite number; got {x!r}")


def positive(name: str, x: Any) -> None:
    """Require a finite number above 0."""
    number(name, x)
    if x <= 0:
        raise ValueError(f"{name} must be positive; got {x}")
