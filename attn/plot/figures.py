"""The one style of the book's figures.

A figure shows itself once in a notebook, as a PNG of double resolution with
its description: transparent ground, grey text, colours that read on white
and on black. ``svg.py`` draws the same figure for the pages of the book,
where each colour has a value for either theme.
"""

from __future__ import annotations

import io
import os
import struct
from contextlib import AbstractContextManager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogFormatter, LogLocator
from numpy.typing import NDArray

# Contrast at least 4.25 : 1 on white and on #121212 for what is written in
# them, 3 : 1 for further curves; all stay apart for every kind of
# colour-blindness. book/_static/figures.css has their values for each theme.
GREY = "#797979"
BLUE = "#2f7fc1"
ORANGE = "#c7571a"
GREEN = "#01a97f"
PURPLE = "#cb30f7"
GOLD = "#ce8108"
COLORS = (BLUE, ORANGE, GREEN, PURPLE, GOLD, GREY)
LOOKS = [(c, s) for s in ("-", "--", ":") for c in COLORS]
#: What is written on a coloured cell or bar.
INK, PAPER = "#000000", "#ffffff"
#: Attention maps: from nothing to everything, in a hundred steps.
LEVELS = 101
MAP = LinearSegmentedColormap.from_list("attn", [PAPER, "#0b3c78"], LEVELS)
#: From this share on, PAPER reads better on MAP than INK, in both themes.
DARK = 0.695

FONT, SMALLEST = 10, 6.8  # points; the smallest are 9 pixels on a page
SVG, NARROW = "image/svg+xml", "image/svg+xml;layout=narrow"
_STYLE: Any = {
    "axes.facecolor": "none",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "figure.facecolor": "none",
    "font.family": "DejaVu Sans",
    "font.size": FONT,
    "hatch.linewidth": 0.6,
    "image.cmap": MAP.name,
    "savefig.dpi": 200,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "attn",
} | dict.fromkeys(
    [
        *("axes.edgecolor", "axes.labelcolor", "axes.titlecolor"),
        *("text.color", "xtick.color", "ytick.color", "hatch.color"),
    ],
    GREY,
)
mpl.colormaps.register(MAP, force=True)


class Picture(Figure):
    """A figure that shows itself in a notebook, without pyplot.

    ``columns`` is how many panels are side by side on a phone; with 0 the
    figure is not drawn again, and scrolls there.
    """

    columns = 1

    def colorbar(self, mappable: Any, *args: Any, **kwargs: Any) -> Any:
        mappable.set_cmap(MAP)  # later, the bar would lose its labels
        with style():  # a bar is made of new axes
            bar = super().colorbar(mappable, *args, **kwargs)
        bar.outline.set_visible(False)
        return bar

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict, dict]:
        settle(self)
        file = io.BytesIO()
        with style():  # without matplotlib's version, for stable outputs
            look: Any = {
                "bbox_inches": "tight",
                "metadata": {"Software": None},
            }
            self.savefig(file, format="png", **look)
        png = file.getvalue()
        width, height = (x // 2 for x in struct.unpack(">2I", png[16:24]))
        text = alt_text(self)
        size = {"width": width, "height": height, "alt": text}
        shown: dict = {"image/png": png, "text/plain": text}
        if os.environ.get("ATTN_SVG"):  # a chapter is being refreshed
            from attn.plot.svg import drawings

            shown |= zip((SVG, NARROW), drawings(self), strict=False)
        return shown, {"image/png": size}


def settle(figure: Figure) -> None:
    """Apply what a style cannot say: one map, and powers without formulas."""
    for ax in figure.axes:
        for image in ax.images:
            if image.get_cmap() != MAP:
                image.set_cmap(MAP)
        ax.title.set_fontsize(FONT)
        for axis in (ax.xaxis, ax.yaxis):
            if isinstance(axis.get_major_formatter(), LogFormatter):
                low, high = sorted(axis.get_view_interval())
                if high < 30 * low:  # else one label or none
                    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axis.set_major_formatter(FuncFormatter(_power))
    fit_labels(figure)


def fit_labels(figure: Figure) -> None:
    """Make the labels of a map's rows and columns as small as its cells."""
    maps = [
        ax
        for ax in figure.axes
        if ax.get_aspect() != "auto"
        and max(len(ax.get_xticks()), len(ax.get_yticks())) > 8
    ]
    for ax in maps:
        ax.tick_params(labelsize=FONT)
    if maps:
        with style():
            figure.draw_without_rendering()
    for ax in maps:
        rows = ax.transData.transform([(0, 0), (1, 1)])
        cell = abs(rows[1] - rows[0]).min() * 72 / figure.dpi
        if cell < FONT / 0.85:
            ax.tick_params(labelsize=max(SMALLEST, 0.85 * cell))


def _power(x: float, _: int) -> str:
    if 0.001 < x < 10_000:
        return f"{x:g}"
    digits = str(round(np.log10(x)))
    return "10" + digits.translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def style() -> AbstractContextManager[None]:
    """Apply the book's matplotlib style within a ``with`` block."""
    return mpl.rc_context(_STYLE)


def figure(
    width: float, height: float, *grid: int, columns: int = 1
) -> tuple[Figure, Any]:
    """Create a figure in the book's style.

    Args:
        width, height: in inches; a page of the book is 6.5 wide.
        grid: rows and columns of axes; one pair of axes by default.
        columns: of axes on a phone; 0 for a figure that scrolls there.

    Returns:
        The figure and its axes, as ``pyplot.subplots``.
    """
    with style():
        picture = Picture(figsize=(width, height))
        picture.columns = columns
        return picture, picture.subplots(*grid)


def alt_text(figure: Figure) -> str:
    """Return the description of a figure; empty without one."""
    return str(figure.get_label() or "")


def describe(figure: Figure, text: str) -> Figure:
    """Set the description of a figure in words, its alt text."""
    figure.set_label(text)
    return figure


def array(x: Any) -> NDArray:
    """Convert a tensor, an array or a list to an array."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = (x.float() if x.is_floating_point() else x).numpy()
    return np.asarray(x)
