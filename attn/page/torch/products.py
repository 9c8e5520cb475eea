"""Multiply matrices, sum over letters, and solve triangular systems."""

from __future__ import annotations

import math
from functools import reduce
from operator import mul
from typing import Any

from .dtypes import promote_types
from .errors import not_here
from .names import FUNCTIONS, METHODS, both, function, linalg, method
from .pairs import add, sub
from .pairs import mul as times
from .reductions import sum_ as total
from .shapes import diagonal, permuted, reshape, transpose, unsqueeze
from .tensor import (
    Size,
    Tensor,
    broadcast_shapes,
    elements,
    expand_to,
    new,
    rounded,
    size_of,
)


def _dot(a: list[Any], b: list[Any]) -> Any:
    return sum(map(mul, a, b))


dot_of = getattr(math, "sumprod", _dot)
"""Multiply two lists; Python 3.12 has a faster function."""


@both
def matmul(input, other):
    if not isinstance(other, Tensor):
        raise TypeError(
            "matmul(): argument 'other' (position 2) must be Tensor, not "
            f"{type(other).__name__}"
        )
    a, b = input, other
    n, m = len(a.shape), len(b.shape)
    if not n or not m:
        raise RuntimeError(
            "both arguments to matmul need to be at least 1D, but they are "
            f"{n}D and {m}D"
        )
    _check_product(a, b)
    if n == 1:
        a = unsqueeze(a, 0)
    if m == 1:
        b = unsqueeze(b, 1)
    result = product(a, b)
    shape = list(result.shape)
    if m == 1:
        del shape[-1]
    if n == 1:
        del shape[-1 if m == 1 else -2]
    return reshape(result, shape) if n == 1 or m == 1 else result


def _check_product(a: Tensor, b: Tensor) -> None:
    n, m = len(a.shape), len(b.shape)
    inner = b.shape[-2] if m > 1 else b.shape[0]
    if a.shape[-1] != inner:
        if n == 1 and m == 1:
            raise RuntimeError(
                f"inconsistent tensor size, expected tensor {list(a.shape)} "
                f"and src {list(b.shape)} to have the same number of "
                f"elements, but got {a.shape[0]} and {b.shape[0]} elements "
                "respectively"
            )
        if m == 1 and (n == 2 or _is_folded(a)):
            rows = math.prod(a.shape[:-1])
            raise RuntimeError(
                f"size mismatch, got input ({rows}), mat ({rows}x"
                f"{a.shape[-1]}), vec ({inner})"
            )
        if max(n, m) > 2 and not (m <= 2 and _is_folded(a)):
            batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
            raise RuntimeError(
                "Expected size for first two dimensions of batch2 tensor to "
                f"be: [{math.prod(batch)}, {a.shape[-1]}] but got: "
                f"[{math.prod(batch)}, {inner}]."
            )
        rows = math.prod(a.shape[:-1])
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x"
            f"{a.shape[-1]} and {inner}x{b.shape[-1]})"
        )
    if n == 1 and m == 1 and a.dtype is not b.dtype:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{a.dtype.label} and {b.dtype.label}"
        )
    if a.dtype is not b.dtype:
        if max(n, m) > 2 and not (m <= 2 and _is_folded(a)):
            raise RuntimeError(
                f"expected scalar type {a.dtype.label} but found "
                f"{b.dtype.label}"
            )
        raise RuntimeError(
            "expected m1 and m2 to have the same dtype, but got: "
            f"{a.dtype.c_name} != {b.dtype.c_name}"
        )


def _is_folded(x: Tensor) -> bool:
    """Return whether PyTorch makes one matrix of a batch of them."""
    sizes, steps = x.shape[:-1], x._strides[:-1]
    return all(
        step == n * next_step
        for step, n, next_step in zip(steps, sizes[1:], steps[1:])  # noqa: B905
    )


def product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply matrices of fitting shapes, in batches that are broadcast."""
    (n, k), m = a.shape[-2:], b.shape[-1]
    if len(b.shape) == 2 and len(a.shape) > 2:  # one matrix: no batch
        shape = [*a.shape[:-1], m]
        a = reshape(a, -1, k) if k and n else a
        if len(a.shape) == 2:
            return reshape(product(a, b), shape)
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    size_of((*batch, n, m))
    lefts = elements(expand_to(a, Size((*batch, n, k))))
    turned = permuted(b, [*range(len(b.shape) - 2), -1, -2])
    rights = elements(expand_to(turned, Size((*batch, m, k))))
    values: list[Any] = []
    for i in range(math.prod(batch)):
        start, end = i * n * k, i * m * k
        rows = [lefts[start + j * k : start + j * k + k] for j in range(n)]
        columns = [rights[end + j * k : end + j * k + k] for j in range(m)]
        for row in rows:
            values += [dot_of(row, column) for column in columns]
    return rounded(values, [*batch, n, m], a.dtype)


@both
def mm(input, mat2):
    for x, name in ((input, "self"), (mat2, "mat2")):
        if len(x.shape) != 2:
            raise RuntimeError(f"{name} must be a matrix")
    return matmul(input, mat2)


@both
def mv(input, vec):
    return matmul(input, vec)


@both
def bmm(input, mat2):
    for x, name in ((input, "batch1"), (mat2, "batch2")):
        if len(x.shape) != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"[{input.shape[0]}, {input.shape[2]}] but got: "
            f"[{mat2.shape[0]}, {mat2.shape[1]}]."
        )
    return matmul(input, mat2)


@both
def dot(input, tensor):
    if len(input.shape) != 1 or len(tensor.shape) != 1:
        raise RuntimeError(
            "1D tensors expected, but got "
            f"{len(input.shape)}D and {len(tensor.shape)}D tensors"
        )
    return matmul(input, tensor)


@both
def vdot(input, other):
    return dot(input, other)


@both
def outer(input, vec2):
    for x, name in ((input, "self"), (vec2, "vec2")):
        if len(x.shape) != 1:
            raise RuntimeError(
                f"outer: Expected 1-D argument {name}, but got "
                f"{len(x.shape)}-D"
            )
    return times(unsqueeze(input, 1), vec2)


@both
def baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    made = bmm(batch1, batch2)
    made = made if alpha == 1 else times(made, alpha)
    return made if beta == 0 else add(times(input, beta), made)


@both
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    made = mm(mat1, mat2)
    made = made if alpha == 1 else times(made, alpha)
    return made if beta == 0 else add(times(input, beta), made)


@linalg
def linalg_vecdot(x, y, *, dim=-1):
    return total(times(x, y), dim)


@linalg
def linalg_multi_dot(tensors):
    return reduce(matmul, tensors)


@linalg
def linalg_matrix_power(A, n):
    if n < 0:
        A, n = linalg_inv(A), -n
    return reduce(
        matmul, [A] * n, FUNCTIONS["eye"](A.shape[-1], dtype=A.dtype)
    )


# Einsum


@function
def einsum(equation, *operands):
    if len(operands) == 1 and isinstance(operands[0], tuple | list):
        operands = tuple(operands[0])
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        more = "fewer" if len(terms) > len(operands) else "more"
        raise RuntimeError(
            f"einsum(): {more} operands were provided than specified in the "
            "equation"
        )
    extra = max(
        len(x.shape) - len(term.replace("...", ""))
        for term, x in zip(terms, operands, strict=True)
    )
    parts = [
        _labelled(term, x, extra, i)
        for i, (term, x) in enumerate(zip(terms, operands, strict=True))
    ]
    lengths = _lengths(parts)
    if arrow:
        result = _labels(right, extra, extra)
        for letter in result:
            if isinstance(letter, str) and letter not in lengths:
                raise RuntimeError(
                    f"einsum(): output subscript {letter} does not appear in "
                    "the equation for any input operand"
                )
    else:
        once = sorted(
            x for x in set(left) if x.isalpha() and left.count(x) == 1
        )
        result = [*range(-extra, 0), *once]
    labels, x = parts[0]
    for i, (more_labels, y) in enumerate(parts[1:], 2):
        later = {c for other, _ in parts[i:] for c in other}
        wanted = later | set(result)
        labels, x = _contract(labels, x, more_labels, y, wanted, lengths)
    gone = [i for i, c in enumerate(labels) if c not in result]
    if gone:
        x = total(x, gone)
        labels = [c for c in labels if c in result]
    absent = [c for c in result if c not in labels]
    labels = labels + absent
    for _ in absent:
        x = unsqueeze(x, -1)
    return permuted(x, [labels.index(c) for c in result])


Labels = list[Any]


def _labels(term: str, ndim: int, extra: int) -> Labels:
    """Return the letters of a term; the axes of an ellipsis are numbers."""
    before, dots, after = term.partition("...")
    hidden = range(-min(ndim, extra), 0) if dots else ()
    return [*before, *hidden, *after]


def _labelled(
    term: str, x: Tensor, extra: int, i: int
) -> tuple[Labels, Tensor]:
    """Return an operand's axes by name; of a repeated one, the diagonal."""
    letters = len(term.replace("...", ""))
    ndim = len(x.shape)
    if ndim != letters if "..." not in term else ndim < letters:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({letters}) "
            + ("does not match" if "..." not in term else "is more than")
            + f" the number of dimensions ({ndim}) for operand {i}"
            + (" and no ellipsis was given" if "..." not in term else "")
        )
    labels = _labels(term, ndim - letters, extra)
    for c in set(labels):
        while labels.count(c) > 1:
            first = labels.index(c)
            second = labels.index(c, first + 1)
            x = diagonal(x, 0, first, second)
            labels = [
                *labels[:first],
                *labels[first + 1 : second],
                *labels[second + 1 :],
                c,
            ]
    return labels, x


def _lengths(parts: list[tuple[Labels, Tensor]]) -> dict[Any, int]:
    lengths: dict[Any, int] = {}
    for i, (labels, x) in enumerate(parts):
        for at, (c, n) in enumerate(zip(labels, x.shape, strict=True)):
            known = lengths.get(c, 1)
            if n != known and 1 not in (n, known):
                raise RuntimeError(
                    f"einsum(): subscript {c} has size {n} for operand {i} "
                    f"which does not broadcast with previously seen size "
                    f"{known}"
                )
            lengths[c] = max(n, known) if n and known else 0
            del at
    return lengths


def _contract(
    a_labels: Labels,
    a: Tensor,
    b_labels: Labels,
    b: Tensor,
    wanted: set[Any],
    lengths: dict[Any, int],
) -> tuple[Labels, Tensor]:
    """Multiply two operands, as matrices; sum over what nobody wants."""
    for_a = [c for c in a_labels if c not in b_labels and c in wanted]
    for_b = [c for c in b_labels if c not in a_labels and c in wanted]
    shared = [c for c in a_labels if c in b_labels]
    kept = [c for c in shared if c in wanted]
    summed = [c for c in shared if c not in wanted]
    a = _arranged(a_labels, a, kept, for_a, summed, lengths)
    b = _arranged(b_labels, b, kept, for_b, summed, lengths)
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"expected scalar type {a.dtype.label} but found {b.dtype.label}"
        )
    made = product(a, transpose(b, -1, -2))
    labels = kept + for_a + for_b
    return labels, reshape(made, [lengths[c] for c in labels])


def _arranged(
    labels: Labels,
    x: Tensor,
    kept: Labels,
    own: Labels,
    summed: Labels,
    lengths: dict[Any, int],
) -> Tensor:
    """Return an operand as a batch of matrices, (kept, own, summed)."""
    order = kept + own + summed
    alone = [i for i, c in enumerate(labels) if c not in order]
    if alone:
        x = total(x, alone)
        labels = [c for c in labels if c in order]
    x = permuted(x, [labels.index(c) for c in order])
    x = expand_to(x, Size(lengths[c] for c in order))
    sizes = [
        math.prod(lengths[c] for c in group) for group in (kept, own, summed)
    ]
    return reshape(x, sizes)


# Solve


@linalg
def linalg_solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    if not left:
        raise not_here("torch.linalg.solve_triangular(left=False)")
    (n, _), m = A.shape[-2:], B.shape[-1]
    batch = broadcast_shapes(A.shape[:-2], B.shape[:-2])
    a = elements(expand_to(A, Size((*batch, n, n))))
    values = list(elements(expand_to(B, Size((*batch, n, m)))))
    order = range(n)[::-1] if upper else range(n)
    for i in range(math.prod(batch)):
        done: list[int] = []
        for r in order:
            row = (i * n + r) * n
            for c in range(m):
                at = (i * n + r) * m + c
                known = [
                    a[row + j] * values[(i * n + j) * m + c] for j in done
                ]
                x = values[at] - sum(known)
                values[at] = x if unitriangular else x / a[row + r]
            done.append(r)
    return rounded(values, [*batch, n, m], A.dtype)


@linalg
def linalg_solve(A, B):
    """Eliminate as Gauss does, with the largest element as the pivot."""
    if len(A.shape) != 2 or not 1 <= len(B.shape) <= 2:
        raise not_here("torch.linalg.solve of batches")
    n, shape = A.shape[0], B.shape
    right = elements(B)
    width = len(right) // n
    table = [
        elements(A)[i * n : (i + 1) * n] + right[i * width : (i + 1) * width]
        for i in range(n)
    ]
    for i in range(n):
        best = max(range(i, n), key=lambda r: abs(table[r][i]))
        table[i], table[best] = table[best], table[i]
        if not table[i][i]:
            raise RuntimeError(
                "torch.linalg.solve: The solver failed because the input "
                "matrix is singular."
            )
        top = [x / table[i][i] for x in table[i]]
        table = [
            top
            if r == i
            else [x - row[i] * y for x, y in zip(row, top, strict=True)]
            for r, row in enumerate(table)
        ]
    return rounded([x for row in table for x in row[n:]], shape, A.dtype)


@linalg
def linalg_inv(A):
    return linalg_solve(A, FUNCTIONS["eye"](A.shape[-1], dtype=A.dtype))


@both
def dist(input, other, p=2):
    return METHODS["norm"](sub(input, other), p)


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
    kind = blocks[0].dtype
    for x in blocks:
        kind = promote_types(kind, x.dtype)
    width = sum(x.shape[1] for x in blocks)
    values: list[Any] = []
    before = 0
    for x in blocks:
        rows, columns = x.shape
        own = elements(x)
        for i in range(rows):
            after = width - before - columns
            values += (
                [0] * before
                + own[i * columns : (i + 1) * columns]
                + [0] * after
            )
        before += columns
    return rounded(values, [sum(x.shape[0] for x in blocks), width], kind)


__all__ = ["method", "new"]
