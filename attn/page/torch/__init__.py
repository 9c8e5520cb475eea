"""PyTorch's stand-in, where there is none: on the book's page.

Pure Python: a tensor is a list, a shape, strides and a start. Elements are
rounded to the dtype that they claim, views share their list, errors are
worded as PyTorch's are. A function has PyTorch's name, arguments and meaning:
PyTorch's documentation is its own. What is missing says so, ``NotOnThisPage``.
"""

from __future__ import annotations

import math
from contextlib import ContextDecorator
from functools import partial
from typing import Any

# Each registers functions; the operators are made of them.
from . import along, complexes, gathering, network, operators
from . import vmap as vmap_
from .creation import filling
from .dtypes import NAMES, dtype, finfo, iinfo, promote_types
from .errors import NotOnThisPage, looking
from .names import FUNCTIONS, METHODS, called, public
from .pairs import result_type
from .sizes import Size
from .tensor import Generator, Tensor, device
from .traced import STATE

for _name, _f in METHODS.items():
    setattr(Tensor, _name, public(_name, _f, "Tensor", Tensor))

from . import autograd, linalg, nn  # noqa: E402

__all__ = ["Generator", "NotOnThisPage", "Size", "Tensor", "autograd", "nn"]
__all__ += ["called", "device", "dtype", "filling", "finfo", "iinfo"]
__all__ += ["linalg", "promote_types", "result_type"]
_PUBLIC = {x: public(x, f, "torch", Tensor) for x, f in FUNCTIONS.items()}
globals().update(NAMES | _PUBLIC)
__all__ += [*NAMES, *_PUBLIC]
inf, nan, pi, e = math.inf, math.nan, math.pi, math.e
newaxis = None
strided, preserve_format = "torch.strided", "torch.preserve_format"
contiguous_format = "torch.contiguous_format"
__version__ = "page"
_REGISTERED = (along, complexes, gathering, network, operators, vmap_)


class set_grad_enabled(ContextDecorator):
    """Switch gradients, which the page computes only where a check needs."""

    def __init__(self, mode: bool) -> None:
        self._mode = mode

    def __enter__(self) -> None:
        """Switch, until the end."""
        self._before = STATE.enabled
        STATE.enabled = self._mode

    def __exit__(self, *error: object) -> None:
        """Switch back."""
        STATE.enabled = self._before


def no_grad(func: Any = None) -> Any:
    switch = set_grad_enabled(False)
    return switch(func) if func else switch


enable_grad, inference_mode = partial(set_grad_enabled, True), no_grad


def is_grad_enabled() -> bool:
    return STATE.enabled


def get_default_dtype() -> dtype:
    return NAMES["float32"]


__getattr__ = looking("torch", "torch")
