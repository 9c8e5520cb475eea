"""Show a matrix around its first difference, a sign an element."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_ROWS, _COLUMNS = 8, 16  # at most
_BOOL = "# True, . False; wrong: + True, - False"
_NUMBERS = "x differs, . is right"


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
    rows = _window(len(wrong), row, _ROWS)
    columns = _window(wrong.shape[1], column, _COLUMNS)
    whole = len(rows) == len(wrong) and len(columns) == wrong.shape[1]

    def sign(i: int, j: int) -> str:
        if not is_bool:
            return "x" if wrong[i, j] else "."
        return ("-+" if wrong[i, j] else ".#")[int(got[i, j])]

    return Grid(
        f"matrix{where}{'' if whole else ', a part'}",
        _BOOL if is_bool else _NUMBERS,
        columns,
        [(i, "".join(sign(i, j) for j in columns)) for i in rows],
    )


def _window(size: int, middle: int, most: int) -> range:
    """Return at most so many indices, around one of them."""
    start = max(0, min(middle - most // 2, size - most))
    return range(start, min(size, start + most))
