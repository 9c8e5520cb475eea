"""Change the text of a cell at the places that its nodes name.

A line keeps its number.
"""

from __future__ import annotations

import ast
import textwrap
from itertools import accumulate

#: From a byte to another, and what is there instead.
Edit = tuple[int, int, str]


class Cell:
    """The bytes of a cell, by the places that its nodes name."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()
        lines = (len(x) + 1 for x in self._data.split(b"\n"))
        self._starts = [0, *accumulate(lines)]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the first byte of a node, and the one after it."""
        line, end, column, last = (
            getattr(node, x)
            for x in ("lineno", "end_lineno", "col_offset", "end_col_offset")
        )
        return self._starts[line - 1] + column, self._starts[end - 1] + last

    def short(self, node: ast.AST) -> str:
        """Return the beginning of a node's text."""
        first, stop = self.span(node)
        start = self._data[first : min(stop, first + 1000)]
        text = start.decode(errors="ignore")
        return textwrap.shorten(text, 40, placeholder=" …")

    def edit(
        self, start: int, stop: int, before: str = "", after: str = ""
    ) -> Edit:
        """Return what puts two texts there, with the line ends between."""
        lines = "\n" * self._data.count(b"\n", start, stop)
        return start, stop, f"{before}{lines}{after}"

    def nothing(self, node: ast.AST) -> list[Edit]:
        """Return what makes a statement do nothing."""
        span = self.span(node)
        has_lines = bool(self.edit(*span)[2])
        return [self.edit(*span, *("()" if has_lines else ("pass",)))]

    def changed(self, edits: list[Edit]) -> str:
        """Return the text with those edits that are in no other."""
        at, parts = 0, []
        for first, stop, new in sorted(edits, key=lambda x: (x[0], -x[1])):
            if first >= at:
                parts += [self._data[at:first], new.encode()]
                at = stop
        return b"".join((*parts, self._data[at:])).decode()
