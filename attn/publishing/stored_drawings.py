"""Store the drawings of the chapters' figures: SVG in ``book/figures``.

A notebook keeps each figure as a PNG, which Jupyter shows. The pages of the
book show SVG: a refresh takes it out of the outputs and writes it to
``book/figures/<notebook>/<name of the figure>.svg``, with a second file for
phones where the layout differs. The first line of a file holds the digest of
the cell that drew it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attn.publishing.myst_to_markdown.targets import figure_name

_PNG, _SVG = "image/png", "image/svg+xml"
#: The endings of the files' names.
_LAYOUTS = {_SVG: "", f"{_SVG};layout=narrow": "-narrow"}
_Digest = Callable[[str], str]


def folder(notebook: Path) -> Path:
    """Return the folder of a notebook's drawings."""
    return notebook.resolve().parents[1] / "book" / "figures" / notebook.stem


def store(cells: list[Any], path: Path, digest: _Digest) -> None:
    """Move the SVG of a notebook's outputs to files; remove older ones.

    Outputs lose it everywhere, files are written only in the book's tree.
    """
    files = {}
    for cell in cells:
        for output in cell.get("outputs", []):
            for layout, ending in _LAYOUTS.items():
                svg = output.get("data", {}).pop(layout, None)
                output.get("metadata", {}).pop(layout, None)
                if svg and (label := figure_name(cell)):
                    name = f"{label}{ending}"
                    stamped = _stamped(svg, name, digest(cell.source))
                    files[f"{name}.svg"] = stamped
    drawings = folder(path)
    if not drawings.parent.is_dir():
        return
    drawings.mkdir(exist_ok=True)
    for old in drawings.glob("*.svg"):
        if old.name not in files:
            old.unlink()
    for file, text in files.items():
        (drawings / file).write_text(text, encoding="utf-8")


def _stamped(svg: str, name: str, digest: str) -> str:
    """Return an SVG with its cell's digest, its ids unique in a page."""
    text = re.sub(r'(id="|url\(#)', rf"\g<1>{name}-", svg)
    return text.replace("<svg ", f'<svg data-cell="{digest}" ', 1)


def drift(cells: list[Any], path: Path, digest: _Digest) -> Iterator[str]:
    """Yield the figures of a notebook without a drawing of their cell."""
    for cell in cells:
        outputs = cell.get("outputs", [])
        if not any(_PNG in output.get("data", {}) for output in outputs):
            continue
        name = figure_name(cell)
        file = folder(path) / f"{name}.svg"
        stamp = f'data-cell="{digest(cell.source)}"'
        if not file.exists():
            yield f"{name}: it has no drawing, {file.name}"
        elif stamp not in file.read_text("utf-8"):
            yield f"{name}: the drawing is older than its cell"
