"""Read and write elements by index: numbers, ranges, masks and tensors."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import repeat
from typing import Any

from .dtypes import BOOL, INT, bool_, int64, uint8
from .errors import not_here
from .names import FUNCTIONS, METHODS, both, called, function, method
from .shapes import movedim, reshape, take
from .tensor import (
    Size,
    Tensor,
    alias,
    axis,
    broadcast_shapes,
    elements,
    expand_to,
    is_number,
    new,
    places,
    size_of,
    write,
)


def _wrap(i: int, n: int, d: int) -> int:
    if not -n <= i < n:
        raise IndexError(
            f"index {i} is out of bounds for dimension {d} with size {n}"
        )
    return i % n


def _entry(x: Tensor, i: int) -> Tensor:
    """Return the view of one entry of the first axis."""
    shape = x.shape
    if not shape:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python "
            "or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a "
            "number"
        )
    n = shape[0]
    if i < 0:
        i += n
    if not 0 <= i < n:
        _wrap(i - n if i < 0 else i, n, 0)
    start = x._start + i * x._strides[0]
    return alias(x, tuple(shape)[1:], x._strides[1:], start)


def _is_advanced(key: Any) -> bool:
    if isinstance(key, Tensor):
        return bool(key.shape) or key.dtype.kind != INT
    return isinstance(key, list | tuple | range | str)


def _index_tensor(key: Any) -> Tensor:
    if not isinstance(key, Tensor):
        key = FUNCTIONS["tensor"](key)
        if not math.prod(key.shape):
            key = new([], key.shape, int64)
    if key.dtype is uint8 or key.dtype.kind not in (BOOL, INT):
        raise IndexError(
            "tensors used as indices must be long, int, byte or bool tensors"
        )
    return key


def _keys(x: Tensor, key: Any) -> list[Any]:
    """Return a key for each axis and each new one, without an ellipsis."""
    keys = list(key) if isinstance(key, tuple) else [key]
    for i, k in enumerate(keys):
        if _is_advanced(k):
            keys[i] = _index_tensor(k)
    used = 0
    for k in keys:
        if isinstance(k, Tensor) and k.dtype is bool_:
            used += len(k.shape)
        elif not (k is None or k is Ellipsis or isinstance(k, bool)):
            used += 1
    ndim = len(x.shape)
    if used > ndim:
        raise IndexError(f"too many indices for tensor of dimension {ndim}")
    rest: list[Any] = [slice(None)] * (ndim - used)
    for i, k in enumerate(keys):
        if k is Ellipsis:
            keys[i : i + 1] = rest
            return [slice(None) if k is Ellipsis else k for k in keys]
    return keys + rest


def _basic(x: Tensor, keys: list[Any]) -> tuple[Tensor, dict[int, Tensor]]:
    """Apply numbers, ranges and new axes; return the axes left to tensors.

    A mask is replaced by the positions of its True elements, an axis each.
    """
    shape: list[int] = []
    strides: list[int] = []
    start, d = x._start, 0
    advanced: dict[int, Tensor] = {}
    for k in keys:
        if k is None:
            shape.append(1)
            strides.append(0)
            continue
        if isinstance(k, bool):
            k = new([k], (), bool_)
        if isinstance(k, Tensor) and k.dtype is bool_ and not k.shape:
            advanced[len(shape)] = new([0] * int(k), [int(k)], int64)
            shape.append(1)
            strides.append(0)
            continue
        if isinstance(k, Tensor) and k.shape:
            parts = [k]
            if k.dtype is bool_:
                own = x.shape[d : d + len(k.shape)]
                for i, (n, m) in enumerate(zip(k.shape, own, strict=True)):
                    if n != m:
                        raise IndexError(
                            f"The shape of the mask {list(k.shape)} at index "
                            f"{i} does not match the shape of the indexed "
                            f"tensor {list(x.shape)} at index {d + i}"
                        )
                parts = nonzero(k, as_tuple=True)
            for part in parts:
                advanced[len(shape)] = part
                shape.append(x.shape[d])
                strides.append(x._strides[d])
                d += 1
            continue
        n, step = x.shape[d], x._strides[d]
        if isinstance(k, slice):
            if k.step is not None and k.step <= 0:
                raise ValueError("step must be greater than zero")
            first, stop, by = k.indices(n)
            shape.append(max(0, -(-(stop - first) // by)))
            strides.append(step * by)
            start += first * step
        else:
            try:
                i = k.__index__()
            except (AttributeError, TypeError):
                raise IndexError(
                    "only integers, slices (`:`), ellipsis (`...`), None and "
                    "long or byte Variables are valid indices (got "
                    f"{type(k).__name__})"
                ) from None
            start += _wrap(i, n, d) * step
        d += 1
    return alias(x, shape, tuple(strides), start), advanced


def _places(x: Tensor, advanced: dict[int, Tensor]) -> tuple[Size, list[int]]:
    """Return the shape of what tensors select, and where its elements are."""
    try:
        common = broadcast_shapes(*(k.shape for k in advanced.values()))
    except RuntimeError:
        shapes = ", ".join(str(list(k.shape)) for k in advanced.values())
        raise IndexError(
            "shape mismatch: indexing tensors could not be broadcast "
            f"together with shapes {shapes}"
        ) from None
    offsets = [0] * math.prod(common)
    for at, (d, k) in enumerate(advanced.items()):
        n, step = x.shape[d], x._strides[d]
        index = elements(expand_to(k, common))
        offsets = [
            a + _wrap(i, n, at) * step
            for a, i in zip(offsets, index, strict=True)
        ]
    dims = list(advanced)
    first = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    kept = [
        (d, n, s)
        for d, (n, s) in enumerate(zip(x.shape, x._strides, strict=True))
        if d not in advanced
    ]
    before = [(n, s) for d, n, s in kept if d < first]
    after = [(n, s) for d, n, s in kept if d >= first]
    shape = Size((*(n for n, _ in before), *common, *(n for n, _ in after)))
    size_of(shape)
    inner = places(after)
    return shape, [
        a + b + c
        for a in places(before, x._start)
        for b in offsets
        for c in inner
    ]


def getitem(x: Tensor, key: Any) -> Tensor:
    """Return a view, or what tensors and masks select, as a copy."""
    if type(key) is int:
        return _entry(x, key)
    view, advanced = _basic(x, _keys(x, key))
    if not advanced:
        return view
    shape, found = _places(view, advanced)
    storage = view._storage
    return new([storage[i] for i in found], shape, x.dtype)


def setitem(x: Tensor, key: Any, value: Any) -> None:
    """Overwrite what an index selects."""
    if not (isinstance(value, Tensor) or is_number(value)):
        raise TypeError(
            f"can't assign a {type(value).__name__} to a "
            f"torch.{x.dtype.label}Tensor"
        )
    if type(key) is int:
        view, advanced = _entry(x, key), {}
    else:
        view, advanced = _basic(x, _keys(x, key))
    if not advanced:
        write(view, _values_for(view, value, view.shape))
        return
    shape, found = _places(view, advanced)
    try:
        values = _values_for(view, value, shape)
    except RuntimeError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} "
            f"cannot be broadcast to indexing result of shape {list(shape)}"
        ) from None
    storage = view._storage
    for i, v in zip(found, values, strict=True):
        storage[i] = v


def _values_for(x: Tensor, value: Any, shape: Size) -> list[Any]:
    size = math.prod(shape)
    if not isinstance(value, Tensor):
        return x.dtype.round([value]) * size
    while value.shape and value.shape[0] == 1:
        value = _entry(value, 0)
    if len(value.shape) > len(shape):
        raise RuntimeError(
            f"expand({value.dtype.type}{{{list(value.shape)}}}, "
            f"size={list(shape)}): the number of sizes provided "
            f"({len(shape)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({len(value.shape)})"
        )
    values = elements(expand_to(value, shape))
    return list(values) if value.dtype is x.dtype else x.dtype.round(values)


Tensor.__getitem__ = getitem  # type: ignore[attr-defined]
Tensor.__setitem__ = setitem  # type: ignore[attr-defined]


@both
def nonzero(input, *, as_tuple=False):
    called.add("nonzero")
    shape = input.shape
    strides = places_in(shape)
    found = [i for i, v in enumerate(elements(input)) if v]
    columns = [
        [i // step % n for i in found]
        for n, step in zip(shape, strides, strict=True)
    ]
    if as_tuple:
        return tuple(new(c, [len(found)], int64) for c in columns)
    values = [i for row in zip(*columns, strict=True) for i in row]
    return new(values, [len(found), len(shape)], int64)


def places_in(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a shape whose elements follow one another."""
    from .tensor import strides_of

    return strides_of(tuple(shape))


@both
def index_select(input, dim, index):
    d = axis(dim, len(input.shape))
    n = input.shape[d]
    for i in elements(index):
        if not 0 <= i < n:
            raise IndexError("index out of range in self")
    return take(input, d, elements(index))


@both
def masked_select(input, mask):
    shape = broadcast_shapes(input.shape, mask.shape)
    return getitem(expand_to(input, shape), expand_to(mask, shape))


@both
def take_along_dim(input, indices, dim):
    d = axis(dim, len(input.shape))
    own, index = list(input.shape), list(indices.shape)
    own[d] = index[d] = 1
    shape = list(broadcast_shapes(tuple(own), tuple(index)))
    shape[d] = input.shape[d]
    input = expand_to(input, Size(shape))
    shape[d] = indices.shape[d]
    return gather(input, d, expand_to(indices, Size(shape)))


def _along(x: Tensor, d: int, index: Tensor, name: str) -> list[int]:
    """Return where each element of index points, along one axis of x."""
    if len(index.shape) != len(x.shape):
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as "
            f"{'input' if name == 'gather' else 'self'} tensor"
        )
    if index.dtype is not int64:
        raise RuntimeError(f"{name}(): Expected dtype int64 for index")
    for i, (n, m) in enumerate(zip(index.shape, x.shape, strict=True)):
        if i != d and n > m and name == "gather":
            raise RuntimeError(
                f"Size does not match at dimension {i} expected index "
                f"{list(index.shape)} to be no larger than self "
                f"{list(x.shape)} apart from dimension {d}"
            )
    steps = [0 if i == d else s for i, s in enumerate(x._strides)]
    bases = places([*zip(index.shape, steps, strict=True)], x._start)
    n, step = x.shape[d], x._strides[d]
    found = []
    for a, i in zip(bases, elements(index), strict=True):
        if not 0 <= i < n:
            raise RuntimeError(
                f"index {i} is out of bounds for dimension {d} with size {n}"
            )
        found.append(a + i * step)
    return found


@both
def gather(input, dim, index):
    d = axis(dim, len(input.shape))
    found = _along(input, d, index, "gather")
    storage = input._storage
    return new([storage[i] for i in found], index.shape, input.dtype)


def _check_source(x: Tensor, d: int, index: Tensor, source: Tensor) -> None:
    triples = zip(index.shape, x.shape, source.shape, strict=True)
    for i, (n, m, k) in enumerate(triples):
        if n > k or i != d and n > m:
            raise RuntimeError(
                f"Expected index {list(index.shape)} to be no larger than "
                f"self {list(x.shape)} apart from dimension {d} and to be no "
                f"larger size than src {list(source.shape)}"
            )


@method
def scatter_(input, dim, index, src=None, *, value=None):
    d = axis(dim, len(input.shape))
    found = _along(input, d, index, "scatter")
    given = value if src is None else src
    values: Any
    if isinstance(given, Tensor):
        if given.dtype is not input.dtype:
            raise RuntimeError(
                "scatter(): Expected self.dtype to be equal to src.dtype"
            )
        ranges = tuple(slice(n) for n in index.shape)
        _check_source(input, d, index, given)
        values = elements(getitem(given, ranges))
    else:
        values = repeat(input.dtype.round([given])[0])
    for i, v in zip(found, values):  # noqa: B905
        input._storage[i] = v
    return input


@method
def scatter_add_(input, dim, index, src):
    d = axis(dim, len(input.shape))
    found = _along(input, d, index, "scatter_add")
    ranges = tuple(slice(n) for n in index.shape)
    storage = input._storage
    for i, v in zip(found, elements(getitem(src, ranges)), strict=True):
        storage[i] = input.dtype.round([storage[i] + v])[0]
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
        METHODS["add_"](_entry(target, i), row, alpha=alpha)
    return input


def _register_copying(name: str) -> None:
    write_in_place = METHODS[f"{name}_"]

    def compute(input, *args, **kwargs):
        return write_in_place(METHODS["clone"](input), *args, **kwargs)

    compute.__name__ = name
    both(compute)


for _name in (
    "scatter",
    "scatter_add",
    "index_copy",
    "index_fill",
    "index_add",
):
    _register_copying(_name)


def _triangle_indices(name: str, keeps: Any) -> None:
    def compute(row, col, offset=0):
        pairs = [
            (i, j)
            for i in range(row)
            for j in range(col)
            if keeps(j - i, offset)
        ]
        values = [i for i, _ in pairs] + [j for _, j in pairs]
        return new(values, [2, len(pairs)], int64)

    compute.__name__ = f"{name}_indices"
    function(compute)


def _triangle(name: str, keeps: Any) -> None:
    def compute(input, diagonal=0):
        if len(input.shape) < 2:
            raise RuntimeError(
                f"{name}: input tensor must have at least 2 dimensions"
            )
        rows, columns = input.shape[-2:]
        keep = [
            keeps(j - i, diagonal) for i in range(rows) for j in range(columns)
        ]
        (zero,) = input.dtype.round([0])
        values = elements(input)
        keep *= len(values) // (len(keep) or 1)
        kept = [v if k else zero for v, k in zip(values, keep, strict=True)]
        return new(kept, input.shape, input.dtype)

    compute.__name__ = name
    both(compute)


for _name, _keeps in {"tril": operator.le, "triu": operator.ge}.items():
    _triangle(_name, _keeps)
    _triangle_indices(_name, _keeps)


@both
def diag(input, diagonal=0):
    if len(input.shape) not in (1, 2):
        raise RuntimeError(
            f"diag(): Supports 1D or 2D tensors. Got {len(input.shape)}D"
        )
    if len(input.shape) == 2:
        return METHODS["clone"](METHODS["diagonal"](input, diagonal))
    return diag_embed(input, diagonal)


@method
def fill_diagonal_(input, fill_value):
    if len(input.shape) != 2:
        raise not_here("Tensor.fill_diagonal_ of other than two axes")
    METHODS["fill_"](METHODS["diagonal"](input), fill_value)
    return input


@both
def diag_embed(input, offset=0):
    n = input.shape[-1] + abs(offset)
    shape = [*input.shape[:-1], n, n]
    (zero,) = input.dtype.round([0])
    result = new([zero] * size_of(tuple(shape)), shape, input.dtype)
    write(METHODS["diagonal"](result, offset, -2, -1), list(elements(input)))
    return result


__all__ = ["reshape"]
