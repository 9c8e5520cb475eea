"""Check the arguments of patterns."""

from __future__ import annotations

import torch
from torch import Tensor


def value_range(x: Tensor) -> tuple[int, int]:
    """Return the least and the greatest value; 0 and 0 where unknown.

    The code of a compiled graph must not depend on the values of a tensor.
    """
    if x.dtype == torch.bool or x.is_meta or not x.numel():
        return 0, 0
    if torch.compiler.is_compiling():
        return 0, 0
    least, most = torch.aminmax(x)
    return int(least), int(most)


def check_size(name: str, size: object, least: int) -> None:
    if isinstance(size, bool) or not isinstance(size, int):
        raise TypeError(f"{name} must be an int; got {size!r}")
    if size < least:
        raise ValueError(f"{name} must be {least} or more; got {size}")


def check_lengths(**sizes: object) -> None:
    """Require numbers of tokens, which may be symbolic while tracing."""
    for name, size in sizes.items():
        is_int = isinstance(size, int) and not isinstance(size, bool)
        if is_int or isinstance(size, torch.SymInt):
            if isinstance(size, int) and size < 0:
                raise ValueError(f"{name} must be 0 or more; got {size}")
        elif not torch.jit.is_tracing():  # type: ignore[attr-defined]
            raise TypeError(f"{name} must be an int; got {size!r}")


def check_ids(name: str, ids: object, *shapes: str) -> None:
    """Require integers of one of the shapes, given from rank 1 up."""
    got: object = getattr(ids, "dtype", type(ids).__name__)
    if not isinstance(ids, Tensor) or ids.is_floating_point():
        raise TypeError(f"{name} must be an integer tensor; got {got}")
    if ids.dtype == torch.bool or ids.is_complex():
        raise TypeError(f"{name} must be an integer tensor; got {got}")
    if not 1 <= ids.dim() <= len(shapes):
        raise ValueError(
            f"{name} must have shape {' or '.join(shapes)}; got "
            f"{tuple(ids.shape)}"
        )
