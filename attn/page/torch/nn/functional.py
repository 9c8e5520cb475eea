"""Functions of ``torch.nn.functional``."""

from __future__ import annotations

from typing import Any

from .. import network
from ..errors import lookup_error
from ..names import FUNCTIONAL, public
from ..tensor import Tensor

globals().update({x: public(x, f, "F", Tensor) for x, f in FUNCTIONAL.items()})
__all__ = [*FUNCTIONAL]
del network


def __getattr__(name: str) -> Any:
    said = f"module 'torch.nn.functional' has no attribute '{name}'"
    raise lookup_error("F", name, said)
