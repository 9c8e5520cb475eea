"""Show results: a few words for each, and the elements that differ.

A mask, or a matrix that is wrong in places, is a grid: a sign an element.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

WIDTH = 78  # columns of a line that is printed
_BOOL = "# True, . False; wrong: + True, - False"
_NUMBERS = "x differs, . is right"


def wrapped(text: str, margin: str = "") -> list[str]:
    """Return the lines of a text as they are printed, in 78 columns.

    Args:
        text: lines, each with a margin of its own, which its parts keep.
        margin: of all lines, in addition.
    """
    lines = []
    for line in text.splitlines():
        own = margin + line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line.strip(),
            WIDTH,
            initial_indent=own,
            subsequent_indent=own,
            break_on_hyphens=False,
        ) or [""]
    return lines


def describe(x: Any) -> str:
    """Describe a result in a few words: shape, dtype and some elements."""
    if isinstance(x, Tensor):
        if x.dim() == 0:
            return number(x.item())
        return f"{tuple(x.shape)} {dtype_name(x)} {_listed(x)}"
    if isinstance(x, tuple | list):
        if x and all(type(n) in (int, float, bool) for n in x):
            return f"{type(x).__name__} {_listed(x)}"
        return f"{type(x).__name__} of " + "; ".join(map(describe, x[:4]))
    if isinstance(x, float):
        return number(x)
    if isinstance(x, Mapping):
        names = f"a dict of {len(x)}: {first_few([*x])}"
        return names if x else "an empty dict"
    if isinstance(x, torch.Generator):
        return "a torch.Generator"
    text = repr(x)
    return text if len(text) <= 60 else f"a {type(x).__name__}"


def brief(name: str, x: Any) -> str:
    """Name an input in a word or two: its shape, or its value."""
    if isinstance(x, Tensor) and x.dim():
        if x.dim() == 1 and 0 < len(x) <= 4:
            return f"{name} {_listed(x)}"
        usual = x.dtype in (torch.float32, torch.int64, torch.bool)
        dtype = "" if usual else f" {dtype_name(x)}"
        return f"{name} {tuple(x.shape)}{dtype}"
    if isinstance(x, tuple) and all(isinstance(n, str) for n in x):
        return f"{name} {' '.join(x)}"
    if isinstance(x, Mapping):
        return f"{name} (a dict of {len(x)})"
    return f"{name} {x if isinstance(x, str) else describe(x)}"


def first_few(names: Sequence[Any]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(str, names[:3])) + more


def and_list(words: Sequence[str]) -> str:
    """Join words with commas and a last ``and``."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def number(x: Any, digits: int = 4) -> str:
    """Return a number in a few digits, and zero without a sign."""
    x = 0.0 if isinstance(x, float) and x == 0 else x
    return f"{x:.{digits}g}" if isinstance(x, float) else str(x)


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


def _listed(numbers: Any) -> str:
    """Return the first six numbers of a list or tensor."""
    if isinstance(numbers, Tensor):
        numbers = numbers.detach().flatten()[:7].tolist()
    shown = ", ".join(map(number, numbers[:6]))
    return f"[{shown}, …]" if len(numbers) > 6 else f"[{shown}]"


def dtype_name(x: Tensor) -> str:
    """Return a tensor's dtype as ``float32``."""
    return str(x.dtype).removeprefix("torch.")


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
