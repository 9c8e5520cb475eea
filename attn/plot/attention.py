"""Draw attention maps, in a style for white and black pages.

Queries go down, keys go across, masked cells are hatched. Each function
returns a figure that a notebook shows once, at double resolution, with a
description in words: ``alt_text(figure)``. Given an ``ax``, it draws there
and returns None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from attn.plot.cells import (
    Labels,
    hatch,
    hidden_by,
    label,
    make_axes,
    make_panels,
    matrix,
)
from attn.plot.figures import array, describe
from attn.plot.looks import DARK, INK, MAP, ORANGE, PAPER


def attention_map(
    weights: Any,
    queries: Labels = None,
    keys: Labels = None,
    *,
    masked: Any = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Figure | None:
    """Draw one head's weights, or its scores.

    Args:
        weights: ``(L, S)``; ``-inf`` counts as masked, NaN is shown as such.
        queries, keys: tokens, one for each row and column; ``keys`` are the
            queries by default, if there are as many.
        masked: bool ``(L, S)``, True = masked; or an ``attn.Mask``.
        ax: to draw on; a new figure by default.
        title: above the map.

    Raises:
        TypeError, ValueError: a shape or a number of labels does not fit.

    Example:
        >>> x = torch.randn(3, 8)
        >>> weights = attn.attention_weights(x, x, is_causal=True).weights
        >>> figure = attn.plot.attention_map(
        ...     weights, ["the", "cat", "sat"], masked=attn.causal()
        ... )
        >>> figure.savefig("map.png")
    """
    cells = matrix("weights", weights)
    rows, cols = cells.shape
    if keys is None and queries is not None and rows == cols:
        keys = queries
    hidden = np.isneginf(cells)
    if hasattr(masked, "dense"):
        hidden |= hidden_by(masked, rows, cols)
    elif masked is not None:
        more = matrix("masked", masked)
        if more.shape != cells.shape or array(masked).dtype != bool:
            raise ValueError(
                "masked must be bool (True = masked) of the shape of weights, "
                f"{cells.shape}; got {array(masked).dtype} {more.shape}"
            )
        hidden |= more.astype(bool)
    picture, ax = make_axes(ax, rows, cols)
    shown = np.where(hidden | ~np.isfinite(cells), np.nan, cells)
    seen = shown[np.isfinite(shown)]
    low, top = min([0.0, *seen]), max(seen, default=1.0)
    image = ax.imshow(shown, cmap=MAP, vmin=low, vmax=top, aspect="equal")
    hatch(ax, hidden)
    for i, j in np.argwhere(np.isnan(cells)):
        ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, color=ORANGE))
    if max(rows, cols) <= 8:
        _write(ax, np.where(hidden, -np.inf, cells), low, top)
    elif picture is not None:
        picture.colorbar(image, ax=ax, shrink=0.6, label="weight")
    label(ax, cells.shape, queries, keys, title)
    text = f"{title or 'Attention'}: {rows} queries down, {cols} keys across."
    if seen.size:
        i, j = divmod(int(np.nanargmax(shown)), cols)
        row = repr(queries[i]) if queries else i
        col = repr(keys[j]) if keys else j
        text += f" The largest is that of query {row} for key {col}."
    if hidden.any():
        text += f" {hidden.sum()} of {hidden.size} are masked."
    if np.isnan(cells).any():
        text += f" {np.isnan(cells).sum()} are NaN."
    return describe(picture, text) if picture else None


def attention_maps(
    heads: Mapping[str, Any], tokens: Sequence[str], *, columns: int = 2
) -> Figure:
    """Draw several heads over the same tokens, ``columns`` maps in a row.

    Each head has a title and its weights, ``(L, L)``; the errors are those
    of ``attention_map``.

    Example:
        >>> itself = torch.eye(3)
        >>> heads = {"itself": itself, "the one before": itself.roll(-1, 1)}
        >>> figure = attn.plot.attention_maps(heads, ["the", "cat", "sat"])
        >>> [axes.get_title() for axes in figure.axes]
        ['itself', 'the one before']
    """
    picture, panels = make_panels("heads", heads, columns)
    for ax, (name, weights) in zip(panels, heads.items(), strict=True):
        attention_map(weights, tokens, ax=ax, title=name)
    text = f"Attention maps over {len(tokens)} tokens: {', '.join(heads)}."
    return describe(picture, text)


def _write(ax: Axes, cells: NDArray, low: float, top: float) -> None:
    """Write the values, in the colour that reads on their cell."""
    centred: Any = {"ha": "center", "va": "center", "fontsize": "small"}
    for (i, j), x in np.ndenumerate(cells):
        dark = np.isnan(x) or x - low >= DARK * (top - low)
        text = "" if np.isneginf(x) else f"{x:.2f}".replace("nan", "NaN")
        ax.text(j, i, text, color=PAPER if dark else INK, **centred)
