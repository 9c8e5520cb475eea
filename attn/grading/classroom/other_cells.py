"""Tell cells that a notebook does not run as its own Python.

``%%bash`` hands its cell to another program, and ``%%writefile`` to a file:
what such a cell defines is no name of the notebook, unless the notebook
imports or runs the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from attn.grading.classroom.reading import Cell

_ELSEWHERE = re.compile(
    r"\s*%%(?:!|HTML|R|SVG|bash|cmd|cython|html|javascript|js|julia|latex|"
    r"markdown|mermaid|perl|pypy|python[23]?|ruby|script|sh|sql|svg|sx|system)"
    r"\b"
)
_FILE = re.compile(r"\s*%%(?:write)?file\s+(?:-a\s+)?(?:\S*/)?([^\s.]+)")
_FROM = r"^([ \t]*)from[ \t]+{}[ \t]+import[ \t]+([^\n(#]+)"
_RUN = r"^[ \t]*(?:import[ \t]+{0}\b|%run[ \t]+(?:-\w+[ \t]+)*\S*{0}\.py)"


def as_run(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells, with nothing in those that run elsewhere.

    A line that imports from a file that the notebook writes gives names of
    that cell: it is left out, or gives another name to one.
    """
    code = [x.source for x in cells if x.kind == "code"]
    used = {x for x in _written(code) if _is_used(x, code)}
    changed = []
    for cell in cells:
        source = cell.source
        file = _FILE.match(source)
        is_elsewhere = file and file[1] not in used
        if cell.kind == "code" and (is_elsewhere or _ELSEWHERE.match(source)):
            kept, _, rest = source.lstrip().partition("\n")
            source = f"{kept}\n" + "\n" * rest.count("\n")
        elif cell.kind == "code":
            for name in used:
                pattern = re.compile(
                    _FROM.format(re.escape(name)), re.MULTILINE
                )
                source = pattern.sub(_renamed, source)
        is_same = source == cell.source
        changed.append(cell if is_same else replace(cell, source=source))
    return changed


def _written(sources: Sequence[str]) -> Iterator[str]:
    for source in sources:
        if match := _FILE.match(source):
            yield match[1]


def _is_used(name: str, sources: Sequence[str]) -> bool:
    name = re.escape(name)
    patterns = _FROM.format(name), _RUN.format(name)
    found = (re.search(x, y, re.MULTILINE) for x in patterns for y in sources)
    return any(found)


def _renamed(match: re.Match[str]) -> str:
    """Return what ``from file import a, b as c`` does: ``c = b``."""
    parts = (x.split(" as ") for x in match[2].split(","))
    pairs = [[y.strip() for y in x] for x in parts]
    renamed = [f"{x[1]} = {x[0]}" for x in pairs if len(x) == 2]
    return match[1] + ("; ".join(renamed) or "pass")
