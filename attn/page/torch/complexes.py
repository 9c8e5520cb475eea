"""Make complex numbers, for rotations, and take them apart."""

from __future__ import annotations

from .dtypes import REAL, joined
from .errors import said
from .names import METHODS, function
from .tensor import elements, new

_COMPLEX = {part: whole for whole, part in REAL.items()}


@function
def complex_(real, imag):
    values = list(map(joined, elements(real), elements(imag)))
    return new(values, real.shape, _COMPLEX[real.dtype])


@function
def polar(abs, angle):
    times, cos, sin = (METHODS[name] for name in ("mul", "cos", "sin"))
    return complex_(times(abs, cos(angle)), times(abs, sin(angle)))


@function
def view_as_complex(input):
    """Return a copy, where PyTorch returns a view."""
    if input.dtype not in _COMPLEX:
        raise said("complex_dtype", input.dtype.label)
    if input.shape[-1:] != (2,):
        raise RuntimeError("Tensor must have a last dimension of size 2")
    return complex_(*METHODS["unbind"](input, -1))


@function
def view_as_real(input):
    """Return a copy, where PyTorch returns a view."""
    values = [part for x in elements(input) for part in (x.real, x.imag)]
    return new(values, [*input.shape, 2], REAL[input.dtype])
