"""Check the kind of one argument: a tensor, a count."""

from __future__ import annotations

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


def count(name: str, x: Any, least: int = 1) -> None:
    """Require an int, which may be a symbolic size while tracing."""
    if torch.jit.is_tracing():  # type: ignore[attr-defined]
        return  # sizes are tensors there
    is_int = isinstance(x, int | torch.SymInt) and not isinstance(x, bool)
    if not is_int or x < least:
        raise ValueError(f"{name} must be an int, at least {least}; got {x!r}")


def number(name: str, x: Any, least: float = 0.0) -> None:
    """Require a finite number."""
    is_number = isinstance(x, int | float) and not isinstance(x, bool)
    if not is_number or not least <= x < float("inf"):
        raise ValueError(
            f"{name} must be a finite number, at least {least}; got {x!r}"
        )


def same_device(name: str, x: Tensor, other: str, like: Tensor) -> None:
    """Require two tensors on one device."""
    if x.device != like.device:
        raise ValueError(
            f"{name} must be on the device of {other}, {like.device}; got "
            f"{x.device}"
        )
