"""Reckon with shapes: sizes, strides, axes, broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from operator import index
from typing import Any

from .errors import NotOnThisPage, said

LIMIT = 500_000
"""The most elements of a tensor: a page has a second, not a minute."""


class Size(tuple[int, ...]):
    """The lengths of the axes."""

    __slots__ = ()

    def numel(self) -> int:
        """Return how many elements there are."""
        return math.prod(self)

    def __getitem__(self, i: Any) -> Any:
        found = tuple.__getitem__(self, i)
        return Size(found) if isinstance(i, slice) else found

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, tuple(other)))

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"


@lru_cache(4096)
def size_of(shape: tuple[int, ...]) -> int:
    """Return how many elements a shape has, if a page can hold them."""
    if (size := math.prod(shape)) > LIMIT:
        raise NotOnThisPage(
            f"a tensor of {size:,} elements is too large for this page, "
            f"which computes at most {LIMIT:,}; in Jupyter it is not"
        )
    return size


@lru_cache(4096)
def strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of elements that follow one another."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


@lru_cache(4096)
def broadcast_shapes(*shapes: tuple[int, ...]) -> Size:
    """Return the shape that all have when lined up from the last axis."""
    ndim = max(map(len, shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for i, n in [*enumerate(shape, ndim - len(shape))][::-1]:
            if n != 1 and result[i] not in (1, n):
                raise said("broadcast_sizes", result[i], n, i)
            result[i] = result[i] if n == 1 else n
    return Size(result)


def axis(dim: Any, ndim: int) -> int:
    """Return the number of an axis, counted from the front."""
    n = ndim or 1
    dim = dim if type(dim) is int else index(dim)
    if not -n <= dim < n:
        raise said("dim_out", -n, n - 1, dim)
    return dim % n


def axes(dims: Any, ndim: int) -> list[int]:
    """Return axes given as a number, several, or None for all of them."""
    if dims is None or dims == () or dims == []:
        return list(range(ndim))
    several = dims if isinstance(dims, tuple | list) else (dims,)
    found = [axis(d, ndim) for d in several]
    for d in found:
        if found.count(d) > 1:
            raise said("dim_twice", d)
    return found if ndim else []


def listed(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """Return lengths given one by one, or as one sequence."""
    if len(shape) == 1 and isinstance(shape[0], tuple | list):
        shape = tuple(shape[0])
    return tuple(n if type(n) is int else index(n) for n in shape)


def places(axes: Sequence[tuple[int, int]], start: int = 0) -> list[int]:
    """Return the place of each element of axes given by length and stride."""
    found = [start]
    for n, step in axes:
        found = [i + k * step for i in found for k in range(n)]
    return found
