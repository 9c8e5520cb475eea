"""Check the kind of one argument: a tensor, a count, a number."""

from __future__ import annotations

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


def count(name: str, x: Any, least: int = 1) -> None:
    """Require an int, which may be a symbolic size while tracing."""
    if torch.jit.is_tracing():  # type: ignore[attr-defined]
        return  # sizes are tensors there
    is_int = isinstance(x, int | torch.SymInt) and not isinstance(x, bool)
    if not is_int or x < least:
        raise ValueError(f"{name} must be an int, at least {least}; got {x!r}")


def positive(name: str, x: Any) -> None:
    """Require a finite number above 0."""
    is_number = isinstance(x, int | float) and not isinstance(x, bool)
    if not is_number or not 0.0 < x < float("inf"):
        raise ValueError(f"{name} must be a finite number above 0; got {x!r}")
