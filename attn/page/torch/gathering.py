"""Gather elements along an axis, scatter them, and take triangles."""

from __future__ import annotations

import operator
from itertools import repeat
from typing import Any

from .dtypes import int64
from .errors import not_here, said
from .indexing import getitem, setitem
from .joining import take
from .names import METHODS, both, function, method
from .shapes import diagonal, expand, movedim, view
from .sizes import axis, broadcast_shapes, places, size_of
from .tensor import Tensor, elements, new, write


@both
def index_select(input, dim, index):
    d = axis(dim, len(input.shape))
    if not all(0 <= i < input.shape[d] for i in elements(index)):
        raise IndexError("index out of range in self")
    return take(input, d, elements(index))


def _fits(index: Tensor, x: Tensor, d: int, key: str, src: Tensor) -> None:
    """Refuse an index that is larger than what it is applied to."""
    sizes = zip(index.shape, x.shape, src.shape, strict=True)
    for i, (n, m, k) in enumerate(sizes):
        if i != d and n > m or src is not x and n > k:
            shapes = [list(y.shape) for y in (index, x, src)]
            raise said(key, i, *shapes[:2], d, shapes[2])


def _along(x: Tensor, d: int, index: Tensor, name: str) -> list[int]:
    """Return where each element of index points, along one axis of x."""
    if len(index.shape) != len(x.shape):
        raise said("index_axes", "input" if name == "gather" else "self")
    if index.dtype is not int64:
        raise RuntimeError(f"{name}(): Expected dtype int64 for index")
    if name == "gather":
        _fits(index, x, d, "gather_sizes", x)
    steps = [0 if i == d else s for i, s in enumerate(x._strides)]
    bases = places([*zip(index.shape, steps, strict=True)], x._start)
    n, step = x.shape[d], x._strides[d]
    for i in elements(index):
        if not 0 <= i < n:
            raise said("pointed_out", i, d, n)
    pairs = zip(bases, elements(index), strict=True)
    return [a + i * step for a, i in pairs]


@both
def gather(input, dim, index):
    found = _along(input, axis(dim, len(input.shape)), index, "gather")
    storage = input._storage
    return new([storage[i] for i in found], index.shape, input.dtype)


@both
def take_along_dim(input, indices, dim=None):
    if dim is None:
        input, indices, dim = view(input, -1), view(indices, -1), 0
    x, index = movedim(input, dim, -1), movedim(indices, dim, -1)
    outer = broadcast_shapes(x.shape[:-1], index.shape[:-1])
    x, index = (expand(y, *outer, y.shape[-1]) for y in (x, index))
    return movedim(gather(x, -1, index), -1, dim)


@method
def scatter_(input, dim, index, src=None, *, value=None):
    d = axis(dim, len(input.shape))
    found = _along(input, d, index, "scatter")
    given = value if src is None else src
    values: Any
    if isinstance(given, Tensor):
        if given.dtype is not input.dtype:
            raise said("scatter_dtypes")
        _fits(index, input, d, "scatter_sizes", given)
        values = elements(getitem(given, tuple(map(slice, index.shape))))
    else:
        _fits(index, input, d, "scatter_index", input)
        values = repeat(input.dtype.round([given])[0])
    for i, v in zip(found, values):  # noqa: B905
        input._storage[i] = v
    return input


@method
def index_copy_(input, dim, index, source):
    setitem(movedim(input, dim, 0), index, movedim(source, dim, 0))
    return input


@method
def index_fill_(input, dim, index, value):
    setitem(movedim(input, dim, 0), index, value)
    return input


@method
def index_add_(input, dim, index, source, *, alpha=1):
    target, source = movedim(input, dim, 0), movedim(source, dim, 0)
    for i, row in zip(elements(index), source, strict=True):
        METHODS["add_"](getitem(target, i), row, alpha=alpha)
    return input


def _copying(name: str) -> None:
    in_place = METHODS[f"{name}_"]

    def compute(input, *args, **kwargs):
        return in_place(METHODS["clone"](input), *args, **kwargs)

    both(compute, name=name)


for _name in ("scatter", "index_copy", "index_fill", "index_add"):
    _copying(_name)


def _triangle(name: str, keeps: Any) -> None:
    def triangle(input, diagonal=0):
        if len(input.shape) < 2:
            raise said("triangle_axes", name)
        rows, columns = (range(n) for n in input.shape[-2:])
        keep = [keeps(j - i, diagonal) for i in rows for j in columns]
        (zero,) = input.dtype.round([0])
        values = elements(input)
        keep *= len(values) // (len(keep) or 1)
        kept = [v if k else zero for v, k in zip(values, keep, strict=True)]
        return new(kept, input.shape, input.dtype)

    def indices(row, col, offset=0):
        pairs = [(i, j) for i in range(row) for j in range(col)]
        pairs = [(i, j) for i, j in pairs if keeps(j - i, offset)]
        values = [i for i, _ in pairs] + [j for _, j in pairs]
        return new(values, [2, len(pairs)], int64)

    both(triangle, name=name)
    function(indices, f"{name}_indices")


_triangle("tril", operator.le)
_triangle("triu", operator.ge)


@both
def diag(input, diagonal=0):
    if len(input.shape) not in (1, 2):
        raise said("diag_axes", len(input.shape))
    if len(input.shape) == 2:
        return METHODS["clone"](METHODS["diagonal"](input, diagonal))
    return diag_embed(input, diagonal)


@both
def diag_embed(input, offset=0):
    n = input.shape[-1] + abs(offset)
    shape = (*input.shape[:-1], n, n)
    zeros = input.dtype.round([0]) * size_of(shape)
    result = new(zeros, shape, input.dtype)
    write(diagonal(result, offset, -2, -1), list(elements(input)))
    return result


@method
def fill_diagonal_(input, fill_value):
    if len(input.shape) != 2:
        raise not_here("Tensor.fill_diagonal_ of other than two axes")
    METHODS["fill_"](diagonal(input), fill_value)
    return input
