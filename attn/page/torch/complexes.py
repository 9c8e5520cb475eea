"""Make complex numbers, for rotations, and take them apart."""

from __future__ import annotations

from .dtypes import COMPLEX, REAL
from .names import METHODS, function
from .tensor import elements, new

_COMPLEX = {part: whole for whole, part in REAL.items()}


@function
def complex_(real, imag):
    values = list(map(complex, elements(real), elements(imag)))
    return new(values, real.shape, _COMPLEX[real.dtype])


@function
def polar(abs, angle):
    times, cos, sin = (METHODS[name] for name in ("mul", "cos", "sin"))
    return complex_(times(abs, cos(angle)), times(abs, sin(angle)))


@function
def view_as_complex(input):
    """Return a copy, where PyTorch returns a view."""
    if input.dtype not in _COMPLEX:
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double "
            f"tensors, but got a tensor of scalar type: {input.dtype.label}"
        )
    if input.shape[-1:] != (2,):
        raise RuntimeError("Tensor must have a last dimension of size 2")
    return complex_(*METHODS["unbind"](input, -1))


@function
def view_as_real(input):
    """Return a copy, where PyTorch returns a view."""
    if input.dtype.kind != COMPLEX:
        raise RuntimeError(
            "view_as_real is only supported for complex tensors"
        )
    values = [part for x in elements(input) for part in (x.real, x.imag)]
    return new(values, [*input.shape, 2], REAL[input.dtype])
