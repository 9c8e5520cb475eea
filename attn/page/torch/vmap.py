"""Call a function for each entry of an axis: ``torch.vmap``."""

from __future__ import annotations

from typing import Any

from .joining import stack
from .names import function
from .shapes import select
from .tensor import Tensor


@function
def vmap(func, in_dims=0, out_dims=0):
    def mapped(*args: Any) -> Any:
        is_tuple = isinstance(in_dims, tuple)
        dims = in_dims if is_tuple else (in_dims,) * len(args)
        pairs = list(zip(args, dims, strict=True))
        (n,) = {x.shape[d] for x, d in pairs if d is not None}
        results = [
            func(*(x if d is None else select(x, d, i) for x, d in pairs))
            for i in range(n)
        ]
        if isinstance(results[0], Tensor):
            return stack(results, out_dims)
        columns = zip(*results, strict=True)
        return tuple(stack(list(x), out_dims) for x in columns)

    return mapped
