"""The one style of the book's figures, and curves in it.

It suits white and black pages: transparent ground, grey text. A figure shows
itself once in a notebook, at double resolution, with its description.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from contextlib import AbstractContextManager
from itertools import cycle
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

# Contrast at least 4.25 : 1 on white and on #121212; the two accents stay
# apart for every kind of colour-blindness.
GREY = "#797979"
BLUE = "#2f7fc1"
ORANGE = "#c7571a"
MAP = "viridis"
_LOOKS = [(c, s) for s in ("-", "--", ":") for c in (BLUE, ORANGE, GREY)]
_STYLE: Any = {
    "axes.facecolor": "none",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "figure.facecolor": "none",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "hatch.linewidth": 0.6,
    "image.cmap": MAP,
    "savefig.dpi": 200,
    "savefig.facecolor": "none",
} | dict.fromkeys(
    [
        *("axes.edgecolor", "axes.labelcolor", "axes.titlecolor"),
        *("text.color", "xtick.color", "ytick.color", "hatch.color"),
    ],
    GREY,
)


class _Picture(Figure):
    """A figure that shows itself in a notebook, without pyplot."""

    def colorbar(self, *args: Any, **kwargs: Any) -> Any:
        with style():  # a bar is made of new axes
            bar = super().colorbar(*args, **kwargs)
        bar.outline.set_visible(False)
        return bar

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict, dict]:
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
        return {"image/png": png, "text/plain": text}, {"image/png": size}


def style() -> AbstractContextManager[None]:
    """Apply the book's matplotlib style within a ``with`` block."""
    return mpl.rc_context(_STYLE)


def figure(width: float, height: float, *grid: int) -> tuple[Figure, Any]:
    """Create a figure in the book's style.

    Args:
        width, height: in inches; a page of the book is 6.5 wide.
        grid: rows and columns of axes; one pair of axes by default.

    Returns:
        The figure and its axes, as ``pyplot.subplots``.
    """
    with style():
        picture = _Picture(figsize=(width, height))
        return picture, picture.subplots(*grid)


def alt_text(figure: Figure) -> str:
    """Return the description of a figure; empty without one."""
    return str(figure.get_label() or "")


def describe(figure: Figure, text: str) -> Figure:
    """Set the description of a figure in words, its alt text."""
    figure.set_label(text)
    return figure


def lines(
    curves: Mapping[str, Any],
    x: Any = None,
    *,
    xlabel: str = "",
    ylabel: str = "",
    title: str | None = None,
    log: str = "",
    ax: Axes | None = None,
) -> Figure | None:
    """Draw curves, each with its name at its end.

    Args:
        curves: a name and the values, ``(N,)``, of each curve.
        x: ``(N,)``; 0, 1, 2 ... by default.
        xlabel, ylabel: of the axes, with units.
        title: above the figure.
        log: the axes that are logarithmic: ``""``, ``"x"``, ``"y"``, ``"xy"``.
        ax: to draw on; a new figure by default.

    Raises:
        ValueError: a curve does not have one value for each ``x``.
    """
    if not curves or log not in ("", "x", "y", "xy"):
        raise ValueError(
            "curves must hold at least one, and log be '', 'x', 'y' or 'xy'; "
            f"got {len(curves)} and {log!r}"
        )
    values = {name: array(y).astype(float) for name, y in curves.items()}
    first = next(iter(values.values()))
    places = np.arange(first.size) if x is None else array(x).astype(float)
    for name, y in values.items():
        if y.ndim != 1 or y.shape != places.shape or not y.size:
            raise ValueError(
                f"curve {name!r} must have one value for each x, "
                f"{places.shape}; got {y.shape}"
            )
    picture, ax = figure(5.6, 3.2) if ax is None else (None, ax)
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title or "")
    ax.set(xscale="log" if "x" in log else "linear")
    ax.set(yscale="log" if "y" in log else "linear")
    if "x" in log and places.size <= 8:
        ax.set_xticks(places, [f"{place:g}" for place in places])
        ax.minorticks_off()
    looks = cycle(_LOOKS)
    for y, (color, dashes) in zip(values.values(), looks, strict=False):
        ax.plot(places, y, color=color, linestyle=dashes, linewidth=1.8)
    _name_ends(ax, values)
    ends = (f"{n} from {y[0]:.3g} to {y[-1]:.3g}" for n, y in values.items())
    text = (
        f"{title or ylabel or 'Curves'} against {xlabel or 'x'}, from "
        f"{places[0]:.3g} to {places[-1]:.3g}: {'; '.join(ends)}."
    )
    return describe(picture, text) if picture else None


def histograms(
    samples: Mapping[str, Any],
    *,
    bins: int = 60,
    xlabel: str = "",
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure | None:
    """Draw distributions as outlines, named on their flanks.

    Args:
        samples: a name and the values, any shape, of each.
        bins: how many, over the range of all.
        xlabel, title, ax: as in ``lines``.
    """
    values = {name: array(y).ravel() for name, y in samples.items()}
    if not values or not all(y.size for y in values.values()):
        raise ValueError(
            "samples must hold one or more, each with values; got "
            f"{len(values)}"
        )
    picture, ax = figure(5.6, 3.2) if ax is None else (None, ax)
    ax.set(xlabel=xlabel, ylabel="density", title=title or "")
    every = np.concatenate(list(values.values()))
    edges = np.linspace(every.min(), every.max(), bins + 1)
    beside: Any = {"xytext": (4, 2), "textcoords": "offset points"}
    looks = cycle(_LOOKS)
    for (name, y), (color, dashes) in zip(values.items(), looks, strict=False):
        height, _ = np.histogram(y, edges, density=True)
        ax.stairs(height, edges, color=color, linestyle=dashes, linewidth=1.5)
        flank = int(np.flatnonzero(height > height.max() / 2)[-1])
        end = (edges[flank + 1], height[flank])
        ax.annotate(name, end, color=color, **beside)
    spread = (f"{n} has deviation {y.std():.3g}" for n, y in values.items())
    text = f"Spread of {title or xlabel or 'Values'}: {'; '.join(spread)}."
    return describe(picture, text) if picture else None


def _name_ends(ax: Axes, values: dict[str, NDArray]) -> None:
    """Write each curve's name at its end, none over another."""
    ax.margins(x=0.02)
    log = ax.get_yscale() == "log"
    low, high = np.log10(ax.get_ylim()) if log else ax.get_ylim()
    last = np.array([y[-1] for y in values.values()])
    heights = ((np.log10(last) if log else last) - low) / (high - low)
    order = np.argsort(heights)
    gap = 0.075
    for below, above in zip(order, order[1:], strict=False):
        heights[above] = max(heights[above], heights[below] + gap)
    heights -= max(0.0, heights.max() - 1.02)
    for above, below in zip(order[::-1], order[-2::-1], strict=False):
        heights[below] = min(heights[below], heights[above] - gap)
    at: Any = {"transform": ax.transAxes, "va": "center"}
    names = zip(values, heights, cycle(_LOOKS), strict=False)
    for name, height, (color, _) in names:
        ax.text(1.01, height, name, color=color, **at)


def array(x: Any) -> NDArray:
    """Convert a tensor, an array or a list to an array."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = (x.float() if x.is_floating_point() else x).numpy()
    return np.asarray(x)
