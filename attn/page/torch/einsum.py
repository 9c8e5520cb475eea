"""Sum products over letters: ``torch.einsum``."""

from __future__ import annotations

import math
import string
from typing import Any

from .errors import said
from .names import function
from .products import check_batches, product
from .reductions import sum_
from .shapes import diagonal, permuted, reshape, transpose
from .sizes import Size, axes
from .tensor import Tensor, expand_to

_LETTERS = string.ascii_uppercase + string.ascii_lowercase
Labels = list[Any]
"""An axis each: a letter, or a number for one of an ellipsis."""
Part = tuple[Labels, Tensor]


@function
def einsum(equation, *operands):
    if isinstance(equation, Tensor):
        equation, operands = _equation(equation, *operands)
    if len(operands) == 1 and isinstance(operands[0], tuple | list):
        operands = tuple(operands[0])
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        more = "fewer" if len(terms) > len(operands) else "more"
        raise said("einsum_operands", more)
    pairs = list(zip(terms, operands, strict=True))
    hidden = [len(x.shape) - len(term.replace("...", "")) for term, x in pairs]
    parts = [_labelled(term, x, i) for i, (term, x) in enumerate(pairs)]
    lengths = _lengths(parts)
    if not arrow:
        letters = sorted({*left} - {",", "."})
        right = "..." + "".join(x for x in letters if left.count(x) == 1)
    result = _labels(right, max(*hidden, 0))
    for letter in result:
        if letter not in lengths:
            raise said("einsum_output", letter)
    labels, x = parts[0]
    for i, part in enumerate(parts[1:], 2):
        wanted = {*result}.union(*(own for own, _ in parts[i:]))
        labels, x = _contracted((labels, x), part, wanted, lengths)
    if gone := [i for i, c in enumerate(labels) if c not in result]:
        x = sum_(x, gone)
        labels = [c for c in labels if c in result]
    return permuted(x, [labels.index(c) for c in result])


@function
def tensordot(a, b, dims=2):
    n, m = len(a.shape), len(b.shape)
    if isinstance(dims, int):
        dims = [*range(-dims, 0)], [*range(dims)]
    labels = [*range(n, n + m)]
    for i, j in zip(*dims, strict=True):
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise said("contracted", a.shape[i], i, b.shape[j], j)
        labels[j] = i % n
    for own, k in zip(dims, (n, m), strict=True):
        axes(own, k)  # none twice
    every = (*range(n), *labels)
    kept = [i for i in every if (i in labels) == (i >= n)]
    return einsum(a, [*range(n)], b, labels, kept)


def _equation(*given: Any) -> tuple[str, tuple[Tensor, ...]]:
    """Return letters in place of lists of axes, each behind its operand."""
    n, has_result = divmod(len(given), 2)
    left = ",".join(map(_letters, given[1::2]))
    right = f"->{_letters(given[-1])}" if has_result else ""
    return left + right, given[: 2 * n : 2]


def _letters(places: list[Any]) -> str:
    return "".join("..." if i is ... else _LETTERS[i] for i in places)


def _labels(term: str, hidden: int) -> Labels:
    before, dots, after = term.partition("...")
    return [*before, *(range(-hidden, 0) if dots else ()), *after]


def _labelled(term: str, x: Tensor, i: int) -> Part:
    """Return an operand's axes by name; of a repeated one, the diagonal."""
    count, ndim = len(term.replace("...", "")), len(x.shape)
    if "..." not in term and ndim != count:
        raise said("einsum_axes", count, ndim, i)
    if ndim < count:
        raise said("einsum_too_few", count, ndim, i)
    labels = _labels(term, ndim - count)
    for c in {c for c in labels if labels.count(c) > 1}:
        first = labels.index(c)
        second = labels.index(c, first + 1)
        x = diagonal(x, 0, first, second)
        labels = [k for k in labels if k != c] + [c]
    return labels, x


def _lengths(parts: list[Part]) -> dict[Any, int]:
    lengths: dict[Any, int] = {}
    for i, (labels, x) in enumerate(parts):
        for c, n in zip(labels, x.shape, strict=True):
            known = lengths.get(c, 1)
            if n != known and 1 not in (n, known):
                raise said("einsum_sizes", c, n, i, known)
            lengths[c] = n if known == 1 else known
    return lengths


def _contracted(
    one: Part, other: Part, wanted: set[Any], lengths: dict[Any, int]
) -> Part:
    """Multiply two operands, as matrices; sum over what is not wanted."""
    shared = [c for c in one[0] if c in other[0]]
    kept = [c for c in shared if c in wanted]
    summed = [c for c in shared if c not in wanted]
    owns, matrices = [], []
    for labels, x in one, other:
        own = [c for c in labels if c not in shared and c in wanted]
        order = kept + own + summed
        if alone := [i for i, c in enumerate(labels) if c not in order]:
            x = sum_(x, alone)
            labels = [c for c in labels if c in order]
        x = permuted(x, [labels.index(c) for c in order])
        x = expand_to(x, Size(lengths[c] for c in order))
        groups = (kept, own, summed)
        sizes = [math.prod(lengths[c] for c in group) for group in groups]
        owns += own
        matrices.append(reshape(x, sizes))
    check_batches(*matrices)
    made = product(matrices[0], transpose(matrices[1], -1, -2))
    labels = kept + owns
    return labels, reshape(made, [lengths[c] for c in labels])
