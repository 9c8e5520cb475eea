"""Functions of ``torch.linalg``."""

from __future__ import annotations

from typing import Any

from .errors import lookup_error
from .names import LINALG, public
from .tensor import Tensor

globals().update(
    {x: public(x, f, "torch.linalg", Tensor) for x, f in LINALG.items()}
)
__all__ = [*LINALG]


def __getattr__(name: str) -> Any:
    said = f"module 'torch.linalg' has no attribute '{name}'"
    raise lookup_error("torch.linalg", name, said)
