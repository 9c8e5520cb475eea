"""Tables that a notebook shows as such, and a terminal as aligned text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import Any

_NUMBER = re.compile(r"[-−]?\d|[✓✗] [-−]?[\d.,]+$")
_BADGES = {"✓": "yes", "✗": "no"}


class Table:
    """Rows under a head.

    A bool is shown as a sign and a word; a column of numbers ends at the
    right. In HTML a text that begins with ✓ or ✗ is a badge, and an object
    with an HTML form of its own is shown in that.

    Args:
        head: the names of the columns; a pair is the name of a group, over
            the neighbours that share it, and a column's own.
        rows: of each, one entry a column.
        caption: what the table shows.

    Example:
        >>> table = attn.plot.Table(
        ...     ("heads", "cache"), [(8, "128 KiB"), (1, "16 KiB")]
        ... )
        >>> print(table)
        heads    cache
            8  128 KiB
            1   16 KiB
    """

    def __init__(
        self,
        head: Sequence[str | tuple[str, str]],
        rows: Iterable[Sequence[Any]],
        caption: str = "",
    ) -> None:
        for name, x in (("head", head), ("rows", rows)):
            if isinstance(x, str) or not isinstance(x, Iterable):
                raise TypeError(f"{name} must be a list; got {x!r}")
        self.head, self.caption = list(head), caption
        self.rows = [[_shown(x) for x in row] for row in rows]
        for i, row in enumerate(self.rows):
            if len(row) != len(self.head):
                raise ValueError(
                    f"row {i} of rows must have an entry for each of "
                    f"{self.head}; got {len(row)}"
                )

    def __repr__(self) -> str:
        names = [x if isinstance(x, str) else ", ".join(x) for x in self.head]
        lines = [names, *([str(x) for x in row] for row in self.rows)]
        columns = list(zip(*lines, strict=True))
        widths = [max(map(len, column)) for column in columns]
        sides = [str.rjust if x else str.ljust for x in self._numeric()]
        texts = [self.caption] if self.caption else []
        for line in lines:
            cells = zip(sides, line, widths, strict=True)
            texts.append("  ".join(f(x, n) for f, x, n in cells).rstrip())
        return "\n".join(texts)

    def _repr_html_(self) -> str:
        sides = ["right" if x else "left" for x in self._numeric()]

        def cell(kind: str, side: str, x: Any) -> str:
            tag = kind.partition(" ")[0]
            return f'<{kind} style="text-align: {side}">{_html(x)}</{tag}>'

        def line(cells: Iterable[str]) -> str:
            return f"<tr>{''.join(cells)}</tr>"

        name, group = 'th scope="col"', 'th scope="colgroup" colspan='
        columns = list(zip(sides, self.head, strict=True))
        below = [(side, x[1]) for side, x in columns if isinstance(x, tuple)]
        tall = f'{name} rowspan="2"' if below else name
        top: list[str] = []
        for over, some in groupby(
            columns, lambda x: x[1][0] if isinstance(x[1], tuple) else None
        ):
            own = list(some)
            if over is None:
                top += [cell(tall, *x) for x in own]
            else:
                top.append(cell(f'{group}"{len(own)}"', "center", over))
        head = line(top)
        if below:
            head += "\n" + line(cell(name, *x) for x in below)
        caption = self.caption and f"<caption>{escape(self.caption)}</caption>"
        rows = (zip(sides, row, strict=True) for row in self.rows)
        body = "\n".join(line(cell("td", *x) for x in row) for row in rows)
        return (
            f'<table class="table dataframe">{caption}\n'
            f"<thead>{head}</thead>\n<tbody>{body}</tbody>\n</table>"
        )

    def _numeric(self) -> list[bool]:
        """Return which columns hold numbers, and nothing else."""
        columns = [
            [text for row in self.rows if (text := str(row[i]))]
            for i in range(len(self.head))
        ]
        return [bool(c) and all(map(_NUMBER.match, c)) for c in columns]


def _shown(entry: Any) -> Any:
    return ("✗ no", "✓ yes")[entry] if isinstance(entry, bool) else entry


def _html(entry: Any) -> str:
    if hasattr(entry, "_repr_html_"):
        made: str = entry._repr_html_()
        return made
    text = escape(str(entry))
    kind = _BADGES.get(text[:1])
    return f'<b class="{kind}">{text}</b>' if kind else text
