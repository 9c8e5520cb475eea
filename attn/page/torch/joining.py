"""Join tensors, cut them into parts, and repeat or move their entries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .dtypes import bool_, promote_types
from .errors import said
from .names import FUNCTIONS, METHODS, both, function, method, short
from .shapes import narrow, reshape, transpose, unsqueeze
from .sizes import Size, axes, axis, listed, size_of
from .tensor import Tensor, elements, expand_to, new, rounded


def _checked(name: str, tensors: Any) -> list[Tensor]:
    if isinstance(tensors, Tensor) or not isinstance(tensors, tuple | list):
        raise said("not_a_sequence", name, type(tensors).__name__)
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise said("not_a_tensor", i, type(x).__name__)
    if not tensors:
        if name == "cat":
            raise said("cat_nothing")
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return list(tensors)


@function
def cat(tensors, dim=0):
    given = _checked("cat", tensors)
    kind = given[0].dtype
    for x in given[1:]:
        kind = promote_types(kind, x.dtype)
    parts = [x for x in given if x.shape != (0,)] or given[:1]
    first = parts[0].shape
    if not first:
        raise said("cat_numbers")
    d = axis(dim, len(first))
    for i, x in enumerate(parts):
        if len(x.shape) != len(first):
            raise said("cat_axes", len(first), len(x.shape))
        for j, (n, m) in enumerate(zip(first, x.shape, strict=True)):
            if n != m and j != d:
                raise said("cat_sizes", d, n, m, i)
    rows = [(elements(x), math.prod(x.shape[d:])) for x in parts]
    values: list[Any] = []
    for k in range(math.prod(first[:d])):
        for row, n in rows:
            values += row[k * n : k * n + n]
    shape = list(first)
    shape[d] = sum(x.shape[d] for x in parts)
    size_of(tuple(shape))
    return rounded(values, shape, kind)


FUNCTIONS["concat"] = FUNCTIONS["concatenate"] = cat


@function
def stack(tensors, dim=0):
    given = _checked("stack", tensors)
    for i, x in enumerate(given):
        if x.shape != given[0].shape:
            raise said("stack_shapes", list(given[0].shape), list(x.shape), i)
    d = axis(dim, len(given[0].shape) + 1)
    return cat([unsqueeze(x, d) for x in given], d)


@both
def split(input, split_size_or_sections, dim=0):
    n = input.shape[axis(dim, len(input.shape))]
    lengths = split_size_or_sections
    if isinstance(lengths, int):
        if lengths <= 0:
            raise said("split_size", lengths)
        size = lengths
        lengths = [min(size, n - i) for i in range(0, n, size)] or [0]
    if sum(lengths) != n:
        raise said("split_sum", n, dim, list(lengths))
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
    n = input.shape[axis(dim, len(input.shape))]
    places = indices_or_sections
    if isinstance(places, int):
        small, more = divmod(n, places)
        places = [i * small + min(i, more) for i in range(1, places)]
    ends = [min(max(i + n if i < 0 else i, 0), n) for i in (*places, n)]
    pairs = zip([0, *ends], ends)  # noqa: B905
    return tuple(narrow(input, dim, a, max(b - a, 0)) for a, b in pairs)


@method
def repeat(input, *repeats):
    counts = listed(repeats)
    extra = len(counts) - len(input.shape)
    if extra < 0:
        raise said("repeat_axes")
    shape = [1] * extra + list(input.shape)
    x = reshape(input, [m for n in shape for m in (1, n)])
    pairs = list(zip(counts, shape, strict=True))
    x = expand_to(x, Size(m for pair in pairs for m in pair))
    return new(list(elements(x)), [a * b for a, b in pairs], x.dtype)


@both
def repeat_interleave(input, repeats, dim=None):
    if dim is None:
        input, dim = reshape(input, -1), 0
    d = axis(dim, len(input.shape))
    n = input.shape[d]
    counts = elements(repeats) if isinstance(repeats, Tensor) else [repeats]
    counts = counts * n if len(counts) == 1 else counts
    if len(counts) != n:
        raise said("repeats_length", len(counts), d, n)
    index = [i for i, count in enumerate(counts) for _ in range(count)]
    return take(input, d, index)


def take(x: Tensor, d: int, index: Sequence[int]) -> Tensor:
    """Return a copy of these entries of an axis."""
    outer, inner = math.prod(x.shape[:d]), math.prod(x.shape[d + 1 :])
    shape = [*x.shape[:d], len(index), *x.shape[d + 1 :]]
    size_of(tuple(shape))
    values, n = elements(x), x.shape[d]
    found: list[Any] = []
    for k in range(0, outer * n, n or 1):
        for i in index:
            found += values[(k + i) * inner : (k + i + 1) * inner]
    return new(found, shape, x.dtype)


@both
def flip(input, *dims):
    for d in axes(listed(dims), len(input.shape)):
        input = take(input, d, range(input.shape[d])[::-1])
    return input


@both
def roll(input, shifts, dims=None):
    if dims is None:
        return reshape(roll(reshape(input, -1), shifts, 0), input.shape)
    shifts, dims = (
        x if isinstance(x, tuple) else (x,) for x in (shifts, dims)
    )
    for shift, dim in zip(shifts, dims, strict=True):
        d = axis(dim, len(input.shape))
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


def _matrix(x: Tensor) -> Tensor:
    return reshape(x, 1, -1) if len(x.shape) < 2 else x


short(
    {
        "vstack": lambda tensors: cat([_matrix(x) for x in tensors]),
        "hstack": lambda tensors: cat(
            tensors, 0 if len(tensors[0].shape) == 1 else 1
        ),
        "atleast_2d": _matrix,
    },
    FUNCTIONS,
)


@both
def rot90(input, k=1, dims=(0, 1)):
    for _ in range(k % 4):
        input = flip(transpose(input, *dims), dims[0])
    return input
