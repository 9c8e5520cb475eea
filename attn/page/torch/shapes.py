"""Look at the same elements in another shape: views."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .errors import said
from .names import FUNCTIONS, METHODS, also, both, function, method, short
from .sizes import Size, axes, axis, broadcast_shapes, listed, strides_of
from .tensor import Tensor, alias, elements, expand_to, is_contiguous, new


def _completed(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Replace the one -1 by what is left."""
    if shape.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    rest = -math.prod(shape)
    if -1 in shape and not rest and not size:
        raise said("ambiguous_size", list(shape))
    full = shape
    if -1 in shape and rest and size % rest == 0:
        full = tuple(size // rest if n == -1 else n for n in shape)
    if -1 in full or math.prod(full) != size:
        raise said("view_size", list(shape), size)
    return full


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
    target = _completed(listed(shape), math.prod(input.shape))
    strides = _view_strides(input, target)
    if strides is None:
        raise said("view_strides")
    return alias(input, target, strides)


@both
def reshape(input, *shape):
    target = _completed(listed(shape), math.prod(input.shape))
    strides = _view_strides(input, target)
    if strides is not None:
        return alias(input, target, strides)
    return new(list(elements(input)), target, input.dtype)


@both
def flatten(input, start_dim=0, end_dim=-1):
    n = len(input.shape)
    first, last = axis(start_dim, n), axis(end_dim, n)
    shape = list(input.shape)
    shape[first : last + 1] = [math.prod(shape[first : last + 1])]
    return reshape(input, shape)


@both
def unflatten(input, dim, sizes):
    d = axis(dim, len(input.shape))
    n, parts = input.shape[d], tuple(sizes)
    rest = -math.prod(parts)
    if -1 in parts and rest and n % rest == 0:
        parts = tuple(n // rest if x == -1 else x for x in parts)
    if math.prod(parts) != n:
        raise said("unflatten_sizes", list(sizes), d, n)
    return view(input, *input.shape[:d], *parts, *input.shape[d + 1 :])


def permuted(x: Tensor, order: Sequence[int]) -> Tensor:
    """Return a view with the axes in another order."""
    shape, strides = x.shape, x._strides
    moved = tuple(strides[i] for i in order)
    return alias(x, [shape[i] for i in order], moved)


@both
def permute(input, *dims):
    n, order = len(input.shape), listed(dims)
    if len(order) != n:
        raise said("permute_count", n, len(order))
    order = tuple(axis(d, n) for d in order)
    if len(set(order)) < n:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return permuted(input, order)


@also("swapaxes", "swapdims")
def transpose(input, dim0, dim1):
    n = len(input.shape)
    a, b = axis(dim0, n), axis(dim1, n)
    order = list(range(n))
    if order:
        order[a], order[b] = b, a
    return permuted(input, order)


@also("moveaxis")
def movedim(input, source, destination):
    n = len(input.shape)
    source, destination = axes(source, n), axes(destination, n)
    order = [d for d in range(n) if d not in source]
    for to, d in sorted(zip(destination, source, strict=True)):
        order.insert(to, d)
    return permuted(input, order)


@both
def squeeze(input, dim=None):
    n = len(input.shape)
    gone = {d for d in axes(dim, n) if input.shape[d] == 1}
    return permuted(input, [d for d in range(n) if d not in gone])


@both
def unsqueeze(input, dim):
    d = axis(dim, len(input.shape) + 1)
    shape, strides = list(input.shape), list(input._strides)
    step = shape[d] * strides[d] if d < len(shape) else 1
    shape.insert(d, 1)
    strides.insert(d, step)
    return alias(input, shape, tuple(strides))


def check_axes(x: Tensor, target: Sequence[int]) -> None:
    """Refuse a shape of fewer axes than a tensor has."""
    n, m, shape = len(x.shape), len(target), list(x.shape)
    if m < n:
        raise said("expand_axes", x.dtype.type, shape, list(target), m, n)


@method
def expand(input, *size):
    target = list(listed(size))
    extra = len(target) - len(input.shape)
    check_axes(input, target)
    for i, n in enumerate(target):
        if n == -1 and i >= extra:
            target[i] = input.shape[i - extra]
        elif n < 0:
            raise said("expand_leading", n, i)
    return expand_to(input, Size(target), listed(size))


def _shapes_together(*shapes):
    given = ((x,) if isinstance(x, int) else tuple(x) for x in shapes)
    return broadcast_shapes(*given)


@function
def broadcast_tensors(*tensors):
    shape = broadcast_shapes(*(x.shape for x in tensors))
    return tuple(expand_to(x, shape) for x in tensors)


@both
def clone(input):
    return new(list(elements(input)), input.shape, input.dtype)


@both
def narrow(input, dim, start, length):
    d = axis(dim, len(input.shape))
    n, start = input.shape[d], int(start)
    start = start + n if start < 0 else start
    if not 0 <= start <= start + length <= n:
        raise said("narrow_length", start, length, n)
    shape = list(input.shape)
    shape[d] = length
    place = input._start + start * input._strides[d]
    return alias(input, shape, input._strides, place)


@both
def select(input, dim, index):
    return squeeze(narrow(input, dim, index, 1), dim)


@both
def unbind(input, dim=0):
    return tuple(movedim(input, dim, 0))


@method
def unfold(input, dimension, size, step):
    d = axis(dimension, len(input.shape))
    n = input.shape[d]
    if size > n:
        raise said("unfold_size", d, n, size)
    shape, strides = list(input.shape), list(input._strides)
    shape[d] = (n - size) // step + 1
    strides[d] *= step
    return alias(input, [*shape, size], (*strides, input._strides[d]))


@both
def diagonal(input, offset=0, dim1=0, dim2=1):
    n = len(input.shape)
    a, b = axis(dim1, n), axis(dim2, n)
    down, across = max(-offset, 0), max(offset, 0)
    length = max(min(input.shape[a] - down, input.shape[b] - across), 0)
    steps = input._strides
    rest = [d for d in range(n) if d not in (a, b)]
    return alias(
        input,
        [*(input.shape[d] for d in rest), length],
        (*(steps[d] for d in rest), steps[a] + steps[b]),
        input._start + down * steps[a] + across * steps[b],
    )


short({"broadcast_shapes": _shapes_together}, FUNCTIONS)
short(
    {
        "view_as": lambda input, other: view(input, other.shape),
        "reshape_as": lambda input, other: reshape(input, other.shape),
        "expand_as": lambda input, other: expand(input, other.shape),
        "contiguous": lambda x: x if is_contiguous(x) else clone(x),
    },
    METHODS,
)
short(
    {
        "t": lambda input: permuted(input, range(len(input.shape))[::-1]),
        "ravel": lambda input: view(METHODS["contiguous"](input), -1),
        "broadcast_to": lambda input, *size: expand(input, *size),
        "as_strided": lambda input, size, stride, storage_offset=None: alias(
            input, size, tuple(stride), storage_offset
        ),
    },
    FUNCTIONS,
    METHODS,
)
