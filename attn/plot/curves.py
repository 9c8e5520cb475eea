"""Draw curves and distributions, each named where it is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attn.plot.figures import array, check_named, describe, figure
from attn.plot.labels import name_ends
from attn.plot.looks import looks


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

    Example:
        >>> steps = torch.arange(1, 5)
        >>> figure = attn.plot.lines(
        ...     {"linear": steps, "square": steps**2}, steps,
        ...     xlabel="L", ylabel="cost",
        ... )
        >>> print(attn.plot.alt_text(figure))
        cost against L, from 1 to 4: linear from 1 to 4; square from 1 to 16.
    """
    check_named("curves", curves)
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
    ax.margins(x=0.02)
    chosen = looks(values)
    for y, (color, dashes) in zip(values.values(), chosen, strict=True):
        ax.plot(places, y, color=color, linestyle=dashes, linewidth=1.8)
    each = zip(values.items(), chosen, strict=True)
    name_ends(ax, {n: (places[-1], y[-1], c) for (n, y), (c, _) in each})
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

    Example:
        >>> x = torch.linspace(-1, 1, 1000)
        >>> figure = attn.plot.histograms(
        ...     {"scores": 8 * x, "scaled": x}, xlabel="score"
        ... )
        >>> print(attn.plot.alt_text(figure))
        Spread of score: scores has deviation 4.62; scaled has deviation 0.578.
    """
    check_named("samples", samples)
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
    each = zip(values.items(), looks(values), strict=True)
    for (name, y), (color, dashes) in each:
        height, _ = np.histogram(y, edges, density=True)
        ax.stairs(height, edges, color=color, linestyle=dashes, linewidth=1.5)
        flank = int(np.flatnonzero(height > height.max() / 2)[-1])
        end = (edges[flank + 1], height[flank])
        ax.annotate(name, end, color=color, **beside)
    spread = (f"{n} has deviation {y.std():.3g}" for n, y in values.items())
    text = f"Spread of {title or xlabel or 'Values'}: {'; '.join(spread)}."
    return describe(picture, text) if picture else None
