"""Call a function for each entry of an axis, as ``torch.vmap`` does."""

from __future__ import annotations

from typing import Any

from .names import function
from .shapes import select, stack
from .tensor import Tensor


@function
def vmap(func, in_dims=0, out_dims=0):
    def mapped(*args: Any) -> Any:
        dims = (
            in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
        )
        pairs = list(zip(args, dims, strict=True))
        (n,) = {x.shape[d] for x, d in pairs if d is not None}
        results = [
            func(*(x if d is None else select(x, d, i) for x, d in pairs))
            for i in range(n)
        ]
        return _joined(results, out_dims)

    return mapped


def _joined(results: list[Any], dim: Any) -> Any:
    if isinstance(results[0], Tensor):
        return stack(results, dim)
    columns = zip(*results, strict=True)
    return tuple(_joined(list(column), dim) for column in columns)
