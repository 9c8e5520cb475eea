"""The drawings of the chapters' figures: SVG files in ``book/figures``.

A notebook keeps each figure as a PNG, which Jupyter shows. The pages of the
book show SVG: a refresh takes it out of the outputs and writes it to
``book/figures/<notebook>/<name of the figure>.svg``, with a second file for
phones where the layout differs. The first line of a file holds the digest of
the cell that drew it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attn.publishing.myst_to_markdown.targets import figure_name

PNG, SVG = "image/png", "image/svg+xml"
KINDS = {SVG: "", f"{SVG};layout=narrow": "-narrow"}


def folder(notebook: Path) -> Path:
    """Return the folder of a notebook's drawings."""
    return notebook.resolve().parents[1] / "book" / "figures" / notebook.stem


def store(cells: list[Any], path: Path, digest: Any) -> None:
    """Move the SVG of a notebook's outputs to files; remove older ones.

    Outputs lose it everywhere, files are written only in the book's tree.
    """
    files = {}
    for cell in cells:
        for output in cell.get("outputs", []):
            for kind, ending in KINDS.items():
                drawn = output.get("data", {}).pop(kind, None)
                output.get("metadata", {}).pop(kind, None)
                if drawn and (label := figure_name(cell)):
                    drawing = f"{label}{ending}"
                    files[f"{drawing}.svg"] = stamped(
                        drawn, drawing, digest(cell.source)
                    )
    place = folder(path)
    if not place.parent.is_dir():
        return
    place.mkdir(exist_ok=True)
    for old in place.glob("*.svg"):
        if old.name not in files:
            old.unlink()
    for file, text in files.items():
        (place / file).write_text(text, encoding="utf-8")


def stamped(drawn: str, drawing: str, digest: str) -> str:
    """Return an SVG with its cell's digest, its ids unique in a page."""
    text = re.sub(r'(id="|url\(#)', rf"\g<1>{drawing}-", drawn)
    return text.replace("<svg ", f'<svg data-cell="{digest}" ', 1)


def drift(cells: list[Any], path: Path, digest: Any) -> Iterator[str]:
    """Yield the figures of a notebook without a drawing of their cell."""
    for cell in cells:
        outputs = cell.get("outputs", [])
        if not any(PNG in output.get("data", {}) for output in outputs):
            continue
        file = folder(path) / f"{figure_name(cell)}.svg"
        if not file.exists():
            yield f"{figure_name(cell)}: it has no drawing, {file.name}"
        elif f'data-cell="{digest(cell.source)}"' not in file.read_text(
            "utf-8"
        ):
            yield f"{figure_name(cell)}: the drawing is older than its cell"
