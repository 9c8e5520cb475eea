"""Lay a figure out again for a phone: narrower, panels below each other."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attn.plot.labels import place
from attn.plot.layout import fit_labels
from attn.plot.looks import style

WIDTH = 3.5  # inches: a phone of 390 pixels, less the margins of a page
GAP = 4  # pixels at least between two labels of an axis


def narrow(figure: Figure, columns: int) -> Figure | None:
    """Return the figure as laid out for a phone, if that is another one.

    A small figure is the same there; one of 0 columns is left to scroll.
    """
    panels = [ax for ax in figure.axes if ax.get_subplotspec() is not None]
    width = figure.get_size_inches()[0]
    if width <= WIDTH or not columns or not panels:
        return None
    with style():
        other = pickle.loads(pickle.dumps(figure))
        panels = [ax for ax in other.axes if ax.get_subplotspec() is not None]
        _lay_bars(other, panels)
        other.draw_without_rendering()
        _stack(other, panels, columns)
        fit_labels(other)
        place(other)
        other.draw_without_rendering()
        for ax in panels:
            _thin_out(ax)
    return other


def _lay_bars(figure: Figure, panels: list[Axes]) -> None:
    """Put a colour bar below its maps, where it takes no width."""
    images = [image for ax in panels for image in ax.images]
    for bar in [x.colorbar for x in images if x.colorbar]:
        ticks = bar.get_ticks()
        names = [tick.get_text() for tick in bar.ax.get_yticklabels()]
        label, mapped = bar.ax.get_ylabel(), bar.mappable
        bar.remove()
        look: Any = {"orientation": "horizontal", "shrink": 0.7, "pad": 0.02}
        flat = figure.colorbar(mapped, ax=panels, label=label, **look)
        flat.set_ticks(list(ticks), labels=names)


def _stack(figure: Figure, panels: list[Axes], columns: int) -> None:
    """Give the panels a grid of ``columns``, and a height each."""
    height = figure.get_size_inches()[1]
    place: Any = panels[0].get_subplotspec()
    rows, before = place.get_geometry()[:2]
    columns = min(before, columns)
    heights = [_height(ax, WIDTH / columns, height / rows) for ax in panels]
    tall = [
        max(heights[i : i + columns]) for i in range(0, len(panels), columns)
    ]
    bars = 0.6 * (len(figure.axes) - len(panels))
    figure.set_size_inches(WIDTH, sum(tall) + bars)
    grid = figure.add_gridspec(len(tall), columns, height_ratios=tall)
    for n, ax in enumerate(panels):
        ax.set_subplotspec(grid[n])
    if any(ax.get_aspect() != "auto" for ax in panels):
        figure.set_layout_engine("compressed")


def _height(ax: Axes, width: float, before: float) -> float:
    """Return the height of a panel at its new width, never more."""
    if ax.get_aspect() == "auto":
        return before
    inner: Any = ax.get_window_extent()
    outer: Any = ax.get_tightbbox()
    dpi = ax.figure.dpi
    aside, above = outer.width - inner.width, outer.height - inner.height
    shape = inner.height / inner.width
    return min(before, (width - aside / dpi) * shape + above / dpi + 0.15)


def _thin_out(ax: Axes) -> None:
    """Drop labels of the horizontal axis until none touches the next."""
    labels = [x for x in ax.get_xticklabels() if x.get_text()]
    if not labels or labels[0].get_rotation():
        return
    ticks = [label.get_position()[0] for label in labels]
    boxes = [label.get_window_extent() for label in labels]
    for step in range(1, len(labels) + 1):
        kept = boxes[::-step]
        if all(b.x1 + GAP < a.x0 for a, b in pairwise(kept)):
            if step > 1:
                names = [label.get_text() for label in labels]
                ax.set_xticks(ticks[::-step], names[::-step])
            return
