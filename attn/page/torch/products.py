"""Multiply matrices and vectors."""

from __future__ import annotations

import math
from functools import reduce
from operator import mul
from typing import Any

from .dtypes import promote_types
from .errors import said
from .names import FUNCTIONS, METHODS, both, function, linalg, short
from .pairs import add, sub
from .pairs import mul as times
from .reductions import sum_
from .shapes import permuted, reshape, unsqueeze
from .sizes import Size, broadcast_shapes, size_of
from .tensor import Tensor, elements, expand_to, rounded


@both
def matmul(input, other):
    if not isinstance(other, Tensor):
        raise said("argument", "matmul", "other", 2, type(other).__name__)
    n, m = len(input.shape), len(other.shape)
    if not n or not m:
        raise said("product_axes", n, m)
    _check(input, other)
    a = unsqueeze(input, 0) if n == 1 else input
    b = unsqueeze(other, 1) if m == 1 else other
    result = product(a, b)
    if n > 1 and m > 1:
        return result
    rows = () if n == 1 else result.shape[-2:-1]
    columns = () if m == 1 else result.shape[-1:]
    return reshape(result, (*result.shape[:-2], *rows, *columns))


def _check(a: Tensor, b: Tensor) -> None:
    """Refuse what does not fit, in the words of what PyTorch makes of it.

    It is a product of vectors, of matrices, or of batches of matrices; a
    batch times one matrix is one larger matrix if its memory allows it.
    """
    n, m = len(a.shape), len(b.shape)
    size, inner = a.shape[-1], b.shape[-2 if m > 1 else 0]
    rows = math.prod(a.shape[:-1])
    steps, shape = a._strides[:-1], a.shape[:-1]
    follow = zip(steps, shape[1:], steps[1:])  # noqa: B905
    is_one = m <= 2 and all(s == k * next_s for s, k, next_s in follow)
    is_batch = max(n, m) > 2 and not is_one
    if size != inner:
        if n == 1 and m == 1:
            raise said("product_vectors", size, inner, size, inner)
        if is_batch:
            batch = math.prod(broadcast_shapes(a.shape[:-2], b.shape[:-2]))
            raise said("product_batches", batch, size, batch, inner)
        if m == 1:
            raise said("product_vector", rows, rows, size, inner)
        raise said("product_sizes", rows, size, inner, b.shape[-1])
    if a.dtype is not b.dtype:
        if n == 1 and m == 1:
            raise said("dot_dtypes", a.dtype.label, b.dtype.label)
        check_batches(a, b) if is_batch else None
        raise said("product_dtypes", a.dtype.c_name, b.dtype.c_name)


def check_batches(a: Tensor, b: Tensor) -> None:
    """Refuse batches of matrices in two dtypes."""
    if a.dtype is not b.dtype:
        raise said("batch_dtypes", a.dtype.label, b.dtype.label)


def product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply matrices of fitting shapes, in batches that are broadcast."""
    (n, k), m = a.shape[-2:], b.shape[-1]
    if len(b.shape) == 2 < len(a.shape) and k:  # one matrix: no batch
        shape = [*a.shape[:-1], m]
        return reshape(
            product(reshape(a, math.prod(a.shape[:-1]), k), b), shape
        )
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    size_of((*batch, n, m))
    lefts = elements(expand_to(a, Size((*batch, n, k))))
    turned = permuted(b, [*range(len(b.shape) - 2), -1, -2])
    rights = elements(expand_to(turned, Size((*batch, m, k))))
    values: list[Any] = []
    for i in range(math.prod(batch)):
        start, end = i * n * k, i * m * k
        columns = [rights[end + j * k : end + j * k + k] for j in range(m)]
        for j in range(n):
            row = lefts[start + j * k : start + j * k + k]
            values += [sum(map(mul, row, column)) for column in columns]
    return rounded(values, [*batch, n, m], a.dtype)


@both
def mm(input, mat2):
    for x, name in ((input, "self"), (mat2, "mat2")):
        if len(x.shape) != 2:
            raise RuntimeError(f"{name} must be a matrix")
    return matmul(input, mat2)


@both
def bmm(input, mat2):
    for x, name in ((input, "batch1"), (mat2, "batch2")):
        if len(x.shape) != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if input.shape[0] != mat2.shape[0]:
        sizes = input.shape[0], input.shape[2], *mat2.shape[:2]
        raise said("product_batches", *sizes)
    return matmul(input, mat2)


@both
def dot(input, tensor):
    if len(input.shape) != 1 or len(tensor.shape) != 1:
        raise said("dot_axes", len(input.shape), len(tensor.shape))
    return matmul(input, tensor)


FUNCTIONS["vdot"] = METHODS["vdot"] = dot


@both
def outer(input, vec2):
    for x, name in ((input, "self"), (vec2, "vec2")):
        if len(x.shape) != 1:
            raise said("outer_axes", name, len(x.shape))
    return times(unsqueeze(input, 1), vec2)


@both
def baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    made = times(bmm(batch1, batch2), alpha)
    return made if beta == 0 else add(times(input, beta), made)


@linalg
def linalg_vecdot(x, y, *, dim=-1):
    return sum_(times(x, y), dim)


@linalg
def linalg_multi_dot(tensors):
    return reduce(matmul, tensors)


@linalg
def linalg_inv(A):
    """Eliminate as Gauss does, with the largest element as the pivot."""
    (n, _), values = A.shape, elements(A)
    unit = [[float(i == j) for j in range(n)] for i in range(n)]
    table = [values[i * n : i * n + n] + unit[i] for i in range(n)]
    for i in range(n):
        best = max(range(i, n), key=lambda r: abs(table[r][i]))
        table[i], table[best] = table[best], table[i]
        top = table[i] = [x / table[i][i] for x in table[i]]
        for r, row in enumerate(table):
            if r != i:
                table[r] = [
                    x - row[i] * y for x, y in zip(row, top, strict=True)
                ]
    return rounded([x for row in table for x in row[n:]], A.shape, A.dtype)


@function
def cdist(x1, x2, p=2.0, compute_mode=None):
    apart = sub(unsqueeze(x1, -2), unsqueeze(x2, -3))
    return METHODS["norm"](apart, p, -1)


@function
def kron(input, other):
    (n, m), (k, p) = input.shape, other.shape
    made = times(reshape(input, n, 1, m, 1), reshape(other, 1, k, 1, p))
    return reshape(made, n * k, m * p)


@function
def block_diag(*tensors):
    blocks = [reshape(x, 1, -1) if len(x.shape) < 2 else x for x in tensors]
    kind = reduce(promote_types, [x.dtype for x in blocks])
    width = sum(x.shape[1] for x in blocks)
    values: list[Any] = []
    before = 0
    for x in blocks:
        columns, own = x.shape[1], elements(x)
        after = width - before - columns
        for i in range(x.shape[0]):
            row = own[i * columns : (i + 1) * columns]
            values += [0] * before + row + [0] * after
        before += columns
    return rounded(values, [len(values) // (width or 1), width], kind)


short(
    {"dist": lambda input, other, p=2: METHODS["norm"](sub(input, other), p)},
    FUNCTIONS,
    METHODS,
)
