"""Check the arguments of patterns."""

from __future__ import annotations

import torch
from torch import Tensor

from attn import tracing


def value_range(x: Tensor) -> tuple[int, int]:
    """Return the least and the greatest value; 0 and 0 where unknown.

    The code of a compiled graph must not depend on the values of a tensor.
    """
    if x.dtype == torch.bool or not (x.numel() and tracing.has_values(x)):
        return 0, 0
    least, most = torch.aminmax(x)
    return int(least), int(most)


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
