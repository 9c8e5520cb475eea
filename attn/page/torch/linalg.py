"""Functions of ``torch.linalg``."""

from __future__ import annotations

from typing import Any

from .errors import lookup_error
from .names import LINALG, public
from .tensor import Tensor


def __getattr__(name: str) -> Any:
    if name in LINALG:
        return public(name, LINALG[name], "torch.linalg", Tensor)
    said = f"module 'torch.linalg' has no attribute '{name}'"
    raise lookup_error("torch.linalg", name, said)
