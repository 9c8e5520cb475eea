"""Show the elements in which results differ.

A mask, or a matrix that is wrong in places, is a grid: a sign an element.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attn.exercises.literal import number
from attn.exercises.wrapping import WIDTH

_BOOL = "# True, . False; wrong: + True, - False"
_NUMBERS = "x differs, . is right"


def distinct_texts(got: Any, expected: Any) -> tuple[str, str]:
    """Return two numbers in as many digits as it takes to tell them apart."""
    for digits in (4, 6, 9, 17):
        a, b = number(got, digits), number(expected, digits)
        if a != b:
            break
    return a, b


def first_difference(wrong: Tensor, got: Tensor, expected: Tensor) -> str:
    """Return ``: got 0.5, expected 1``, with the index and how many more."""
    ((at, a, b),) = elements(wrong, got, expected, 1)
    place = f" at {at}" if wrong.dim() else ""
    more = f" ({how_many(wrong)})" if wrong.numel() > 1 else ""
    return f"{place}: got {a}, expected {b}{more}"


def how_many(wrong: Tensor) -> str:
    """Return ``2 of 6 elements``, or ``all 6 elements``."""
    count, size = int(wrong.sum()), wrong.numel()
    some = f"{count} of {size}" if count < size else f"all {size}"
    return f"{some} elements"


def elements(
    wrong: Tensor, got: Tensor, expected: Tensor, most: int
) -> list[tuple[str, str, str]]:
    """Return index, got and expected of the first elements that differ."""
    return [
        (str(at), *distinct_texts(got[*at].item(), expected[*at].item()))
        for at in wrong.nonzero()[:most].tolist()
    ]


def difference_lines(
    wrong: Tensor, got: Tensor, expected: Tensor
) -> list[str]:
    """Return lines that show the elements that differ.

    A bool mask, and a matrix that is wrong in places, becomes a grid around
    the first difference; the first elements that differ are listed.

    Args:
        wrong: bool, True where they differ.
        got, expected: of the same shape.
    """
    found = grid(wrong, got)
    is_mask = got.dtype == torch.bool and found
    lines = [] if is_mask else listing(wrong, got, expected)
    return lines + (found.lines if found else [])


def listing(
    wrong: Tensor, got: Tensor, expected: Tensor, most: int = 6
) -> list[str]:
    """Return the first differing elements: one line each for index, values."""
    if wrong.dim() == 0 or wrong.sum() < 2:
        return []
    rows = [f"  {'at':<8}", f"  {'got':<8}", f"  {'expected':<8}"]
    for texts in elements(wrong, got, expected, most):
        width = max(map(len, texts))
        longer = [f"{row}  {x:<{width}}" for row, x in zip(rows, texts)]  # noqa: B905
        if max(len(x.rstrip()) for x in longer) > WIDTH - 2:  # has a margin
            break
        rows = longer
    return [row.rstrip() for row in rows]


class Grid(NamedTuple):
    """A matrix, or a part of it, in signs.

    Args:
        name: ``matrix at [1], a part``.
        key: the meaning of the signs; of ``+``, ``-`` and ``x``, wrong.
        columns: the indices of the columns.
        rows: the index of each row, and its signs.
    """

    name: str
    key: str
    columns: range
    rows: list[tuple[int, str]]

    @property
    def lines(self) -> list[str]:
        """Return the grid in plain text."""
        labels = [str(j) for j in self.columns]
        wide = max(map(len, labels))
        rows = [("", labels), *((str(i), [*signs]) for i, signs in self.rows)]
        return [f"  {self.name}: {self.key}"] + [
            f"  {label:>4}  " + " ".join(x.rjust(wide) for x in cells)
            for label, cells in rows
        ]


def grid(wrong: Tensor, got: Tensor) -> Grid | None:
    """Return the grid around the first difference, if it says something.

    It does of a bool mask, and of a matrix that is wrong in places.

    Args:
        wrong: bool, True where they differ.
        got: of the same shape.
    """
    if wrong.dim() < 2 or got.numel() < 2:
        return None
    *lead, row, column = wrong.nonzero()[0].tolist()
    where = f" at {lead}" if any(n > 1 for n in wrong.shape[:-2]) else ""
    wrong, got = wrong[tuple(lead)], got[tuple(lead)]
    is_bool = got.dtype == torch.bool
    if not is_bool and (wrong.all() or len(wrong) < 2):
        return None
    rows = _window(len(wrong), row, 8)
    columns = _window(wrong.shape[1], column, 16)
    whole = len(rows) == len(wrong) and len(columns) == wrong.shape[1]
    # Right, then wrong: of a mask False and True, of numbers all the same.
    signs = (".#", "-+") if is_bool else ("..", "xx")
    return Grid(
        f"matrix{where}{'' if whole else ', a part'}",
        _BOOL if is_bool else _NUMBERS,
        columns,
        [
            (i, "".join(signs[wrong[i, j]][bool(got[i, j])] for j in columns))
            for i in rows
        ],
    )


def _window(size: int, middle: int, most: int) -> range:
    """Return at most so many indices, around one of them."""
    start = max(0, min(middle - most // 2, size - most))
    return range(start, min(size, start + most))


def beside(wrong: Tensor, got: Tensor, expected: Tensor) -> list[str]:
    """Return the lines of two matrices, or vectors, side by side.

    Of tensors with more axes, it is the first matrix that has a difference.
    """
    import numpy as np

    lead = wrong.nonzero()[0].tolist()[:-2]
    place = f", at {lead}" if lead else ""
    left, right = (
        [name + place]
        + np.array2string(  # a list: NumPy has no bfloat16
            np.array(x[tuple(lead)].tolist()), 37, 3, True, threshold=99
        ).splitlines()
        for name, x in (("got", got), ("expected", expected))
    )
    wide = max(map(len, left)) + 2
    pairs = zip_longest(left, right, fillvalue="")
    return [f"  {a:<{wide}}{b}".rstrip() for a, b in pairs]
