"""Take IPython's own syntax out of a cell: it is no Python.

``%time``, ``!pip``, ``name?`` and ``%%capture`` are recognised by IPython's
parser and never run. A line keeps its number, so that messages about the
others still fit.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import suppress

_LONGEST = 100_000  # characters
_PASSES = 5  # a magic may hide the next one
#: What ``nbconvert --to script`` makes of a magic.
_CONVERTED = re.compile(r"\s*get_ipython\(\)\.\w+\(")


def parse(source: str) -> ast.Module | None:
    """Parse a text; None if it is not Python, whatever it is instead."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d"
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def without_magics(source: str) -> tuple[str, tuple[str, ...]]:
    """Return a cell's Python, and the lines that were left out.

    ``%time y = f(x)`` becomes ``y = f(x)``, as it would have run.
    """
    lines = source.split("\n")
    left_out = []
    if "get_ipython()." in source:
        for number, line in enumerate(lines):
            if _CONVERTED.match(line):
                left_out.append(_short(line))
                lines[number] = _blank(line)
    if parse("\n".join(lines)) is None and len(source) <= _LONGEST:
        # IPython's parser stops at some errors. The room names them.
        with suppress(Exception):
            lines, found = _without_syntax(lines)
            left_out += found
    return "\n".join(lines), tuple(left_out)


def _without_syntax(lines: list[str]) -> tuple[list[str], list[str]]:
    from IPython.core import inputtransformer2 as ipython

    ends = [line + "\n" for line in lines]
    for undo in (
        ipython.leading_indent,
        ipython.classic_prompt,
        ipython.ipython_prompt,
    ):
        ends = undo(ends)
    left_out = []
    first = next((i for i, x in enumerate(ends) if x.strip()), 0)
    if ends[first].startswith("%%"):
        left_out.append(_short(ends[first]))
        ends[first] = "\n"
    for _ in range(_PASSES):
        found = 0
        for start, end in _special(ends):
            magic = "".join(ends[start : end + 1])
            left_out.append(_short(magic))
            ends[start] = _blank(ends[start]) + "\n"
            ends[start + 1 : end + 1] = ["\n"] * (end - start)
            found += 1
            if '"""' in magic or "'''" in magic:
                break  # what follows was taken for a string
        if not found:
            break
    return "".join(ends)[:-1].split("\n"), left_out


def _special(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each of IPython's statements."""
    from IPython.core import inputtransformer2 as ipython

    kinds = (
        ipython.MagicAssign,
        ipython.SystemAssign,
        ipython.EscapedCommand,
        ipython.HelpEnd,
    )
    for tokens in ipython.make_tokens_by_line(lines):
        found = [x for kind in kinds if (x := kind.find([tokens]))]
        if not found:
            continue
        magic = min(found, key=lambda x: x.sortby())
        end = ipython.find_end_of_continued_line(lines, magic.start_line)
        end = getattr(magic, "q_line", end)
        yield magic.start_line, min(end, len(lines) - 1)


def _blank(line: str) -> str:
    """Return a line that does nothing, where a body may need one."""
    code = line.lstrip()
    indent = line[: len(line) - len(code)]
    timed = re.match(r"%time\s+(?!-)(.*\S)", code)
    return indent + (timed[1] if timed else "pass")


def _short(line: str) -> str:
    return textwrap.shorten(line, 40, placeholder=" …")
