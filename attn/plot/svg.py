"""Draw a figure as SVG, for the pages of the book: wide, and for a phone."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from attn.plot.looks import LEVELS, MAP, style
from attn.plot.markup import rewritten
from attn.plot.narrow import narrow

MOST_CELLS = 600  # of a map drawn as shapes; a larger one stays an image


def drawings(figure: Figure, columns: int = 1) -> list[str]:
    """Return a settled figure as SVG, and for a phone if it differs there."""
    other = narrow(figure, columns)
    return [svg(figure), *([svg(other)] if other else [])]


def svg(figure: Figure) -> str:
    """Return the figure as one SVG element, in its present layout."""
    file = io.StringIO()
    with style(), _maps_as_shapes(figure):
        look: Any = {
            "bbox_inches": "tight",
            "pad_inches": 0.03,
            "metadata": {"Date": None, "Creator": None},
        }
        figure.savefig(file, format="svg", **look)
    return rewritten(file.getvalue())


@contextmanager
def _maps_as_shapes(figure: Figure) -> Iterator[None]:
    """Show small images and colour bars as one shape for each level."""
    hidden: list[Any] = []
    added: list[Any] = []
    for ax in figure.axes:
        shapes: list[PathPatch] = []
        for image in ax.images:
            cells: Any = image.get_array()
            if cells.size <= MOST_CELLS:
                left, right, bottom, top = image.get_extent()
                xs = np.linspace(left, right, cells.shape[1] + 1)
                ys = np.linspace(top, bottom, cells.shape[0] + 1)
                grid = np.stack(np.meshgrid(xs, ys), -1)
                shapes += _levels(image.norm(cells), grid)
                hidden.append(image)
        for bar in ax.collections:
            if isinstance(bar, QuadMesh):  # a step of 4 is smooth enough
                corners: Any = bar.get_coordinates()
                cells = np.asarray(bar.get_array())
                cells = cells.reshape([size - 1 for size in corners.shape[:2]])
                shares = np.round(25 * np.asarray(bar.norm(cells))) / 25
                shapes += _levels(shares, corners)
                hidden.append(bar)
        added += map(ax.add_artist, shapes)
    for artist in hidden:
        artist.set_visible(False)
    try:
        yield
    finally:
        for artist in hidden:
            artist.set_visible(True)
        for shape in added:
            shape.remove()


def _levels(cells: Any, corners: Any) -> Iterator[PathPatch]:
    """Yield the cells of each level as a shape; those of level 0 are bare."""
    shares = np.nan_to_num(np.ma.filled(cells, 0).astype(float))
    levels = (shares.clip(0, 1) * (LEVELS - 1)).round()
    around = ((0, 0), (0, 1), (1, 1), (1, 0), (0, 0))
    look: Any = {"linewidth": 0, "zorder": 0.5}
    for level in np.unique(levels[levels > 0]):
        boxes = [
            Path([corners[i + a, j + b] for a, b in around], closed=True)
            for i, j in np.argwhere(levels == level)
        ]
        shape = Path.make_compound_path(*boxes)
        yield PathPatch(shape, facecolor=MAP(int(level)), **look)
