"""Look at the same elements in another shape, and join and cut tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .dtypes import bool_, promote_types
from .names import FUNCTIONS, METHODS, both, function, method
from .tensor import (
    Size,
    Tensor,
    alias,
    axes,
    axis,
    broadcast_shapes,
    elements,
    expand_to,
    is_contiguous,
    new,
    rounded,
    strides_of,
)


def sizes(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """Return lengths given one by one, or as one sequence."""
    if len(shape) == 1 and isinstance(shape[0], tuple | list):
        shape = tuple(shape[0])
    return tuple(n if type(n) is int else n.__index__() for n in shape)


def _completed(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Replace the one -1 by what is left."""
    said = f"shape '{list(shape)}' is invalid for input of size {size}"
    if shape.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    for n in shape:
        if n < -1:
            raise RuntimeError(f"invalid shape dimension {n}")
    if -1 in shape:
        rest = -math.prod(shape)
        if not rest and not size:
            raise RuntimeError(
                f"cannot reshape tensor of {size} elements into shape "
                f"{list(shape)} because the unspecified dimension size -1 "
                "can be any value and is ambiguous"
            )
        if not rest or size % rest:
            raise RuntimeError(said)
        shape = tuple(size // rest if n == -1 else n for n in shape)
    if math.prod(shape) != size:
        raise RuntimeError(said)
    return shape


def _view_strides(x: Tensor, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the strides of the same elements in another shape, if any."""
    if is_contiguous(x):
        return strides_of(shape)
    old = [(n, s) for n, s in zip(x.shape, x._strides, strict=True) if n != 1]
    strides: list[int] = []
    rest = list(shape)
    while old:
        n, step = old.pop()
        while old and old[-1][1] == n * step:  # they follow one another
            n *= old.pop()[0]
        while rest and (n > 1 or rest[-1] == 1):
            size = rest.pop()
            if n % size:
                return None
            strides.append(step)
            n, step = n // size, step * size
        if n > 1:
            return None
    strides += [1] * len(rest)
    return tuple(reversed(strides))


@method
def view(input, *shape):
    from .dtypes import dtype
    from .errors import not_here

    if isinstance(shape[0], dtype):
        raise not_here("Tensor.view(dtype)")
    target = _completed(sizes(shape), math.prod(input.shape))
    strides = _view_strides(input, target)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride "
            "(at least one dimension spans across two contiguous subspaces). "
            "Use .reshape(...) instead."
        )
    return alias(input, target, strides)


@both
def reshape(input, *shape):
    target = _completed(sizes(shape), math.prod(input.shape))
    strides = _view_strides(input, target)
    if strides is not None:
        return alias(input, target, strides)
    return new(list(elements(input)), target, input.dtype)


@method
def view_as(input, other):
    return view(input, *other.shape)


@method
def reshape_as(input, other):
    return reshape(input, *other.shape)


@both
def flatten(input, start_dim=0, end_dim=-1):
    n = len(input.shape)
    first, last = axis(start_dim, n), axis(end_dim, n)
    if first > last:
        raise RuntimeError(
            "flatten() has invalid args: start_dim cannot come after end_dim"
        )
    shape = list(input.shape)
    shape[first : last + 1] = [math.prod(shape[first : last + 1])]
    return reshape(input, shape)


@both
def ravel(input):
    return view(contiguous(input), -1)


@both
def unflatten(input, dim, sizes):
    d = axis(dim, len(input.shape))
    n, parts = input.shape[d], tuple(sizes)
    if -1 in parts:
        rest = -math.prod(parts)
        if rest and n % rest == 0:
            parts = tuple(n // rest if x == -1 else x for x in parts)
    if math.prod(parts) != n:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to "
            f"the size of dim {d} ({n}) in the input tensor"
        )
    return view(input, *input.shape[:d], *parts, *input.shape[d + 1 :])


def permuted(x: Tensor, order: Sequence[int]) -> Tensor:
    """Return a view with the axes in another order."""
    shape, strides = x.shape, x._strides
    return alias(
        x, [shape[i] for i in order], tuple(strides[i] for i in order)
    )


@both
def permute(input, *dims):
    n, order = len(input.shape), sizes(dims)
    if len(order) != n:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input "
            "does not match the length of the desired ordering of dimensions "
            f"i.e. input.dim() = {n} is not equal to len(dims) = {len(order)}"
        )
    order = tuple(axis(d, n) for d in order)
    if len(set(order)) < n:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return permuted(input, order)


def transpose(input, dim0, dim1):
    n = len(input.shape)
    a, b = axis(dim0, n), axis(dim1, n)
    order = list(range(n))
    if order:
        order[a], order[b] = b, a
    return permuted(input, order)


both(transpose, "swapaxes", "swapdims")


@both
def t(input):
    if len(input.shape) > 2:
        raise RuntimeError(
            "t() expects a tensor with <= 2 dimensions, but self is "
            f"{len(input.shape)}D"
        )
    return permuted(input, range(len(input.shape))[::-1])


def movedim(input, source, destination):
    n = len(input.shape)
    source, destination = axes(source, n), axes(destination, n)
    order = [d for d in range(n) if d not in source]
    for to, d in sorted(zip(destination, source, strict=True)):
        order.insert(to, d)
    return permuted(input, order)


both(movedim, "moveaxis")


@both
def squeeze(input, dim=None):
    n = len(input.shape)
    gone = {d for d in axes(dim, n) if input.shape[d] == 1}
    kept = [d for d in range(n) if d not in gone]
    return permuted(input, kept)


@both
def unsqueeze(input, dim):
    d = axis(dim, len(input.shape) + 1)
    shape, strides = list(input.shape), list(input._strides)
    step = shape[d] * strides[d] if d < len(shape) else 1
    shape.insert(d, 1)
    strides.insert(d, step)
    return alias(input, shape, tuple(strides))


@method
def expand(input, *size):
    target = list(sizes(size))
    extra = len(target) - len(input.shape)
    if extra < 0:
        raise RuntimeError(
            f"expand({input.dtype.type}{{{list(input.shape)}}}, "
            f"size={target}): the number of sizes provided ({len(target)}) "
            "must be greater or equal to the number of dimensions in the "
            f"tensor ({len(input.shape)})"
        )
    for i, n in enumerate(target):
        if n == -1 and i >= extra:
            target[i] = input.shape[i - extra]
        elif n < 0:
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) isn't allowed in a "
                f"leading, non-existing dimension {i}"
            )
    return expand_to(input, Size(target), sizes(size))


@method
def expand_as(input, other):
    return expand(input, *other.shape)


@both
def broadcast_to(input, *size):
    return expand(input, *size)


def _broadcast_shapes(*shapes):
    given = ((x,) if isinstance(x, int) else tuple(x) for x in shapes)
    return broadcast_shapes(*given)


FUNCTIONS["broadcast_shapes"] = _broadcast_shapes


@function
def broadcast_tensors(*tensors):
    shape = broadcast_shapes(*(x.shape for x in tensors))
    return tuple(expand_to(x, shape) for x in tensors)


@method
def contiguous(input):
    return input if is_contiguous(input) else clone(input)


@both
def clone(input):
    return new(list(elements(input)), input.shape, input.dtype)


# Join


def _same_kind(name: str, tensors: Any) -> list[Tensor]:
    if isinstance(tensors, Tensor) or not isinstance(tensors, tuple | list):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of "
            f"Tensors, not {type(tensors).__name__}"
        )
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"expected Tensor as element {i} in argument 0, but got "
                f"{type(x).__name__}"
            )
    if not tensors:
        if name == "cat":
            raise ValueError(
                "torch.cat(): expected a non-empty list of Tensors"
            )
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return list(tensors)


def cat(tensors, dim=0):
    given = _same_kind("cat", tensors)
    kind = given[0].dtype
    for x in given[1:]:
        kind = promote_types(kind, x.dtype)
    parts = [x for x in given if x.shape != (0,)] or given[:1]
    first = parts[0].shape
    if not first:
        raise RuntimeError(
            "zero-dimensional tensor (at position 0) cannot be concatenated"
        )
    d = axis(dim, len(first))
    for i, x in enumerate(parts):
        if len(x.shape) != len(first):
            raise RuntimeError(
                "Tensors must have same number of dimensions: got "
                f"{len(first)} and {len(x.shape)}"
            )
        for j, (n, m) in enumerate(zip(first, x.shape, strict=True)):
            if n != m and j != d:
                raise RuntimeError(
                    "Sizes of tensors must match except in dimension "
                    f"{d}. Expected size {n} but got size {m} for tensor "
                    f"number {i} in the list."
                )
    outer = math.prod(first[:d])
    rows = [(elements(x), math.prod(x.shape[d:])) for x in parts]
    values: list[Any] = []
    for k in range(outer):
        for row, n in rows:
            values += row[k * n : k * n + n]
    shape = list(first)
    shape[d] = sum(x.shape[d] for x in parts)
    return rounded(values, shape, kind)


for _name in ("cat", "concat", "concatenate"):
    FUNCTIONS[_name] = cat


@function
def stack(tensors, dim=0):
    given = _same_kind("stack", tensors)
    for i, x in enumerate(given):
        if x.shape != given[0].shape:
            raise RuntimeError(
                "stack expects each tensor to be equal size, but got "
                f"{list(given[0].shape)} at entry 0 and {list(x.shape)} at "
                f"entry {i}"
            )
    d = axis(dim, len(given[0].shape) + 1)
    return cat([unsqueeze(x, d) for x in given], d)


@function
def hstack(tensors):
    given = [unsqueeze(x, 0) if not x.shape else x for x in tensors]
    return cat(given, 0 if len(given[0].shape) == 1 else 1)


@function
def vstack(tensors):
    return cat([reshape(x, 1, -1) if len(x.shape) < 2 else x for x in tensors])


# Cut


@both
def narrow(input, dim, start, length):
    d = axis(dim, len(input.shape))
    n, start = input.shape[d], int(start)
    if not -n <= start <= n:
        raise IndexError(
            "start out of range (expected to be in range of "
            f"[{-n}, {n}], but got {start})"
        )
    start %= n or 1 if start < 0 else n + 1
    if start + length > n:
        raise RuntimeError(
            f"start ({start}) + length ({length}) exceeds dimension size ({n})."
        )
    shape = list(input.shape)
    shape[d] = length
    place = input._start + start * input._strides[d]
    return alias(input, shape, input._strides, place)


@both
def split(input, split_size_or_sections, dim=0):
    n, lengths = (
        input.shape[axis(dim, len(input.shape))],
        split_size_or_sections,
    )
    if isinstance(lengths, int):
        if lengths <= 0:
            raise RuntimeError(
                "split expects split_size be non-negative, but got "
                f"split_size={lengths}"
            )
        size = lengths
        lengths = [min(size, n - i) for i in range(0, n, size)] or [0]
    if sum(lengths) != n:
        raise RuntimeError(
            "split_with_sizes expects split_sizes to sum exactly to "
            f"{n} (input tensor's size at dimension {dim}), but got "
            f"split_sizes={list(lengths)}"
        )
    parts, start = [], 0
    for length in lengths:
        parts.append(narrow(input, dim, start, length))
        start += length
    return tuple(parts)


@both
def chunk(input, chunks, dim=0):
    n = input.shape[axis(dim, len(input.shape))]
    return split(input, max(1, -(-n // chunks)), dim)


@both
def tensor_split(input, indices_or_sections, dim=0):
    n, places = input.shape[axis(dim, len(input.shape))], indices_or_sections
    if isinstance(places, Tensor):
        places = METHODS["tolist"](places)
    if isinstance(places, int):
        small, more = divmod(n, places)
        places = [i * small + min(i, more) for i in range(1, places)]
    ends = [min(max(i + n if i < 0 else i, 0), n) for i in (*places, n)]
    starts = [0, *ends[:-1]]
    return tuple(
        narrow(input, dim, a, max(b - a, 0))
        for a, b in zip(starts, ends, strict=True)
    )


@both
def unbind(input, dim=0):
    return tuple(movedim(input, dim, 0))


@both
def select(input, dim, index):
    return squeeze(narrow(input, dim, index, 1), dim)


@method
def unfold(input, dimension, size, step):
    d = axis(dimension, len(input.shape))
    n = input.shape[d]
    if size > n:
        raise RuntimeError(
            f"maximum size for tensor at dimension {d} is {n} but size is {size}"
        )
    shape, strides = list(input.shape), list(input._strides)
    shape[d] = (n - size) // step + 1
    strides[d] *= step
    return alias(input, [*shape, size], (*strides, input._strides[d]))


@both
def diagonal(input, offset=0, dim1=0, dim2=1):
    n = len(input.shape)
    a, b = axis(dim1, n), axis(dim2, n)
    step_a, step_b = input._strides[a], input._strides[b]
    rows, columns = input.shape[a], input.shape[b]
    length = (
        min(rows, columns - offset)
        if offset >= 0
        else min(rows + offset, columns)
    )
    start = input._start + (
        offset * step_b if offset >= 0 else -offset * step_a
    )
    rest = [d for d in range(n) if d not in (a, b)]
    shape = [*(input.shape[d] for d in rest), max(length, 0)]
    strides = (*(input._strides[d] for d in rest), step_a + step_b)
    return alias(input, shape, strides, start)


# Repeat, turn round


@method
def repeat(input, *repeats):
    counts = sizes(repeats)
    extra = len(counts) - len(input.shape)
    if extra < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than "
            "number of dimensions of tensor"
        )
    shape = [1] * extra + list(input.shape)
    x = reshape(input, shape)
    pairs = [m for pair in zip(counts, shape, strict=True) for m in pair]
    ones = [m for n in shape for m in (1, n)]
    x = expand_to(reshape(x, ones), Size(pairs))
    whole = [a * b for a, b in zip(counts, shape, strict=True)]
    return new(list(elements(x)), whole, x.dtype)


@both
def tile(input, *dims):
    counts = sizes(dims)
    return repeat(input, (1,) * (len(input.shape) - len(counts)) + counts)


@both
def repeat_interleave(input, repeats, dim=None):
    if dim is None:
        input, dim = reshape(input, -1), 0
    d = axis(dim, len(input.shape))
    n = input.shape[d]
    counts = elements(repeats) if isinstance(repeats, Tensor) else [repeats]
    counts = counts * n if len(counts) == 1 else counts
    if len(counts) != n:
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got "
            f"repeats.size(0) = {len(counts)} and input.size({d}) = {n}"
        )
    index = [i for i, count in enumerate(counts) for _ in range(count)]
    return take(input, d, index)


def take(x: Tensor, d: int, index: Sequence[int]) -> Tensor:
    """Return a copy of these entries of an axis."""
    outer, inner = math.prod(x.shape[:d]), math.prod(x.shape[d + 1 :])
    values, n = elements(x), x.shape[d]
    found: list[Any] = []
    for k in range(0, outer * n, n or 1):
        for i in index:
            found += values[(k + i) * inner : (k + i + 1) * inner]
    shape = list(x.shape)
    shape[d] = len(index)
    return new(found, shape, x.dtype)


@both
def flip(input, *dims):
    for d in axes(sizes(dims), len(input.shape)):
        input = take(input, d, range(input.shape[d])[::-1])
    return input


@both
def roll(input, shifts, dims=None):
    if dims is None:
        return reshape(roll(reshape(input, -1), shifts, 0), input.shape)
    several = shifts if isinstance(shifts, tuple | list) else (shifts,)
    places = dims if isinstance(dims, tuple | list) else (dims,)
    for shift, place in zip(several, places, strict=True):
        d = axis(place, len(input.shape))
        n = input.shape[d]
        input = take(input, d, [(i - shift) % n for i in range(n)])
    return input


@both
def diff(input, n=1, dim=-1, prepend=None, append=None):
    given = (prepend, input, append)
    input = cat([x for x in given if x is not None], dim)
    for _ in range(n):
        length = max(input.shape[axis(dim, len(input.shape))] - 1, 0)
        a, b = (narrow(input, dim, i if length else 0, length) for i in (1, 0))
        input = METHODS["sub" if a.dtype is not bool_ else "ne"](a, b)
    return input


@both
def rot90(input, k=1, dims=(0, 1)):
    for _ in range(k % 4):
        input = flip(transpose(input, *dims), dims[0])
    return input


@function
def atleast_2d(*tensors):
    made = [reshape(x, (1, -1)) if len(x.shape) < 2 else x for x in tensors]
    return made[0] if len(made) == 1 else tuple(made)
