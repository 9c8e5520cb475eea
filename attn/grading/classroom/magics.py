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
from contextlib import suppress
from functools import lru_cache

_LONGEST = 50_000  # characters
_MOST = 100  # statements of IPython's: its parser reads the cell for each
#: What ``nbconvert --to script`` makes of a magic.
_CONVERTED = re.compile(r"\s*get_ipython\(\)\.\w+\(")


@lru_cache(maxsize=16)  # a cell is read several times for each exercise
def parse(source: str) -> ast.Module | None:
    """Parse a text; None if it is not Python, whatever it is instead.

    The tree is shared, and not to be changed.
    """
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
    for number, line in enumerate(lines):
        if _CONVERTED.match(line):
            left_out.append(_short(line))
            lines[number] = _blank(line)
    if parse("\n".join(lines)) is None and len(source) <= _LONGEST:
        # IPython's parser stops at some errors. The sandbox names them.
        with suppress(Exception):
            lines, magics = _without_syntax(lines)
            left_out += magics
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
    for first in (i for i, x in enumerate(ends) if x.strip()):
        if not ends[first].startswith("%%"):
            break
        left_out.append(_short(ends[first]))
        ends[first] = "\n"
    transform = ipython.TransformerManager().do_one_token_transform
    for _ in range(_MOST):
        is_changed, changed = transform(ends)
        if not is_changed:
            break
        # It made one line of the statement, which may have had several.
        pairs = enumerate(zip(ends, changed, strict=False))
        start = next(i for i, (old, new) in pairs if old != new)
        more = len(ends) - len(changed)
        left_out.append(_short("".join(ends[start : start + more + 1])))
        blank = _blank(ends[start]) + "\n"
        ends[start : start + more + 1] = [blank] + ["\n"] * more
    return "".join(ends)[:-1].split("\n"), left_out


def _blank(line: str) -> str:
    """Return a line that does nothing, where a body may need one."""
    code = line.lstrip()
    indent = line[: len(line) - len(code)]
    timed = re.match(r"%time\s+(?!-)(.*\S)", code)
    return indent + (timed[1] if timed else "pass")


def _short(line: str) -> str:
    return textwrap.shorten(line, 40, placeholder=" …")
