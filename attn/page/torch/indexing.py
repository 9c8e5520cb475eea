"""Read and write elements by index: numbers, ranges, masks and tensors."""

from __future__ import annotations

import math
import operator
from typing import Any

from .dtypes import BOOL, INT, bool_, int64, uint8
from .errors import said
from .names import FUNCTIONS, both, called
from .shapes import check_axes
from .sizes import Size, broadcast_shapes, places, size_of, strides_of
from .tensor import Tensor, alias, elements, expand_to, is_number, new, write


def _wrap(i: int, n: int, d: int) -> int:
    if not -n <= i < n:
        raise said("index_out", i, d, n)
    return i % n


def _entry(x: Tensor, i: int) -> Tensor:
    """Return the view of one entry of the first axis."""
    shape = x.shape
    if not shape:
        raise said("index_of_number")
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
        raise said("index_dtype")
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
        is_mask = isinstance(k, Tensor) and k.dtype is bool_
        if k is None or isinstance(k, bool) or is_mask and not k.shape:
            if k is not None:  # True is one new axis, False an empty one
                advanced[len(shape)] = new([0] * int(k), [int(k)], int64)
            shape.append(1)
            strides.append(0)
            continue
        if isinstance(k, Tensor) and k.shape:
            parts = [k]
            if is_mask:
                own = x.shape[d : d + len(k.shape)]
                for i, (n, m) in enumerate(zip(k.shape, own, strict=True)):
                    if n != m:
                        where = list(k.shape), i, list(x.shape), d + i
                        raise said("mask_shape", *where)
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
                i = operator.index(k)
            except TypeError:
                raise said("index_kind", type(k).__name__) from None
            start += _wrap(i, n, d) * step
        d += 1
    return alias(x, shape, tuple(strides), start), advanced


def _places(x: Tensor, advanced: dict[int, Tensor]) -> tuple[Size, list[int]]:
    """Return the shape of what tensors select, and where its elements are."""
    try:
        common = broadcast_shapes(*(k.shape for k in advanced.values()))
    except RuntimeError:
        shapes = ", ".join(str(list(k.shape)) for k in advanced.values())
        raise said("index_shapes", shapes) from None
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


def _selected(x: Tensor, key: Any) -> tuple[Tensor, dict[int, Tensor]]:
    if type(key) is int:
        return _entry(x, key), {}
    return _basic(x, _keys(x, key))


def getitem(x: Tensor, key: Any) -> Tensor:
    """Return a view, or what tensors and masks select, as a copy."""
    view, advanced = _selected(x, key)
    if not advanced:
        return view
    shape, found = _places(view, advanced)
    storage = view._storage
    return new([storage[i] for i in found], shape, x.dtype)


def setitem(x: Tensor, key: Any, value: Any) -> None:
    """Overwrite what an index selects."""
    if not (isinstance(value, Tensor) or is_number(value)):
        raise said("cannot_assign", type(value).__name__, x.dtype.label)
    while isinstance(value, Tensor) and value.shape[:1] == (1,):
        value = _entry(value, 0)
    view, advanced = _selected(x, key)
    if not advanced:
        write(view, _values_for(view, value, view.shape))
        return
    shape, found = _places(view, advanced)
    try:
        values = _values_for(view, value, shape)
    except RuntimeError:
        raise said("assigned_shape", list(value.shape), list(shape)) from None
    storage = view._storage
    for i, v in zip(found, values, strict=True):
        storage[i] = v


def _values_for(x: Tensor, value: Any, shape: Size) -> list[Any]:
    size = math.prod(shape)
    if not isinstance(value, Tensor):
        return x.dtype.round([value]) * size
    check_axes(value, shape)
    values = elements(expand_to(value, shape))
    return list(values) if value.dtype is x.dtype else x.dtype.round(values)


@both
def nonzero(input, *, as_tuple=False):
    called.add("nonzero")
    shape = input.shape
    strides = strides_of(shape)
    found = [i for i, v in enumerate(elements(input)) if v]
    columns = [
        [i // step % n for i in found]
        for n, step in zip(shape, strides, strict=True)
    ]
    if as_tuple:
        return tuple(new(c, [len(found)], int64) for c in columns)
    values = [i for row in zip(*columns, strict=True) for i in row]
    return new(values, [len(found), len(shape)], int64)
