"""Draw attention maps and masks, in a style for white and black pages.

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
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from numpy.typing import NDArray

from attn.plot.figures import array, describe, figure
from attn.plot.looks import BLUE, DARK, GREY, INK, MAP, ORANGE, PAPER

Labels = Sequence[str] | None


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
    """
    cells = _matrix("weights", weights)
    rows, cols = cells.shape
    if keys is None and queries is not None and rows == cols:
        keys = queries
    hidden = np.isneginf(cells)
    if hasattr(masked, "dense"):
        hidden |= _hidden_by(masked, rows, cols)
    elif masked is not None:
        more = _matrix("masked", masked)
        if more.shape != cells.shape or array(masked).dtype != bool:
            raise ValueError(
                "masked must be bool (True = masked) of the shape of weights, "
                f"{cells.shape}; got {array(masked).dtype} {more.shape}"
            )
        hidden |= more.astype(bool)
    picture, ax = _axes(ax, rows, cols)
    shown = np.where(hidden | ~np.isfinite(cells), np.nan, cells)
    seen = shown[np.isfinite(shown)]
    low, top = min([0.0, *seen]), max(seen, default=1.0)
    image = ax.imshow(shown, cmap=MAP, vmin=low, vmax=top, aspect="equal")
    _hatch(ax, hidden)
    for i, j in np.argwhere(np.isnan(cells)):
        ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, color=ORANGE))
    if max(rows, cols) <= 8:
        _write(ax, np.where(hidden, -np.inf, cells), low, top)
    elif picture is not None:
        picture.colorbar(image, ax=ax, shrink=0.6, label="weight")
    _label(ax, cells.shape, queries, keys, title)
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
    """
    picture, panels = _panels("heads", heads, columns)
    for ax, (name, weights) in zip(panels, heads.items(), strict=True):
        attention_map(weights, tokens, ax=ax, title=name)
    text = f"Attention maps over {len(tokens)} tokens: {', '.join(heads)}."
    return describe(picture, text)


def mask(
    mask: Any,
    q_len: int | None = None,
    kv_len: int | None = None,
    *,
    queries: Labels = None,
    keys: Labels = None,
    q_offset: int = 0,
    ax: Axes | None = None,
    title: str | None = None,
) -> Figure | None:
    """Draw a mask: filled where a query may attend, hatched elsewhere.

    Args:
        mask: an ``attn.Mask``; or ``(L, S)``, bool (True = may attend) or
            additive (``-inf`` = masked).
        q_len, kv_len: number of queries and keys, for a ``Mask``.
        queries, keys: tokens, one for each row and column.
        q_offset: position of the first query, for a ``Mask``.
        ax, title: as in ``attention_map``; a ``Mask`` is its own title.

    Raises:
        TypeError, ValueError: a shape or a number of labels does not fit.
    """
    q_len = len(queries) if q_len is None and queries else q_len
    kv_len = len(keys) if kv_len is None and keys else kv_len
    hidden = _hidden_by(mask, q_len, kv_len, q_offset)
    if title is None and hasattr(mask, "dense"):
        title = repr(mask)
    picture, ax = _axes(ax, *hidden.shape)
    text = _draw_mask(ax, hidden, title)
    _label(ax, hidden.shape, queries, keys, title)
    return describe(picture, text) if picture else None


def masks_grid(
    masks: Mapping[str, Any],
    q_len: int | None = None,
    kv_len: int | None = None,
    *,
    columns: int = 4,
) -> Figure:
    """Draw a gallery of named masks, ``columns`` in a row.

    The other arguments and the errors are those of ``mask``.
    """
    picture, panels = _panels("masks", masks, columns, on_a_phone=2)
    texts = []
    for ax, (name, one) in zip(panels, masks.items(), strict=True):
        texts.append(_draw_mask(ax, _hidden_by(one, q_len, kv_len), name))
        ax.set(xticks=[], yticks=[], title=name, anchor="N")
        ax.spines[:].set(visible=True, linewidth=0.5)
    return describe(picture, " ".join(texts))


def _draw_mask(ax: Axes, hidden: NDArray, title: str | None) -> str:
    """Fill and hatch the cells; return a description."""
    rows, cols = hidden.shape
    ax.set(xlim=(-0.5, cols - 0.5), ylim=(rows - 0.5, -0.5), aspect="equal")
    look: Any = {"facecolor": BLUE, "edgecolor": GREY, "linewidth": 0.5}
    cells = [Rectangle((j, i), 1, 1) for i, j in np.argwhere(~hidden) - 0.5]
    ax.add_collection(PatchCollection(cells, **look))
    _hatch(ax, hidden)
    seen = (~hidden).sum(-1)
    return (
        f"{title or 'Mask'}: {rows} queries down, {cols} keys across; "
        f"{seen.sum()} of {hidden.size} pairs may attend. The first query "
        f"sees {seen[0]}, the last {seen[-1]}."
    )


def _hatch(ax: Axes, hidden: NDArray) -> None:
    """Hatch what is masked: dark alone would look like a small weight."""
    look: Any = {"facecolor": "none", "edgecolor": GREY, "linewidth": 0}
    look |= {"hatch": "/////", "label": "masked"}
    if not hidden.any():
        return
    # One path: a hatch takes as long for one cell as for all of them.
    square: Any = Path.unit_rectangle()
    corners = np.argwhere(hidden)[:, None, ::-1] + square.vertices - 0.5
    codes = np.tile(square.codes, len(corners))
    cells = PathPatch(Path(corners.reshape(-1, 2), codes))
    ax.add_collection(PatchCollection([cells], **look))


def _write(ax: Axes, cells: NDArray, low: float, top: float) -> None:
    """Write the values, in the colour that reads on their cell."""
    centred: Any = {"ha": "center", "va": "center", "fontsize": "small"}
    for (i, j), x in np.ndenumerate(cells):
        dark = np.isnan(x) or x - low >= DARK * (top - low)
        text = "" if np.isneginf(x) else f"{x:.2f}".replace("nan", "NaN")
        ax.text(j, i, text, color=PAPER if dark else INK, **centred)


def _label(
    ax: Axes, shape: Any, queries: Labels, keys: Labels, title: str | None
) -> None:
    """Label both axes with tokens or positions."""
    rows, cols = shape
    sides = (("queries", queries, rows), ("keys", keys, cols))
    for name, labels, size in sides:
        if labels is not None and len(labels) != size:
            raise ValueError(
                f"{name} must have one label for each of the {size}; got "
                f"{len(labels)}"
            )
    every = 1 if max(rows, cols) <= 16 else 8
    ax.set_yticks(range(rows) if queries else range(0, rows, every), queries)
    ax.set_xticks(range(cols) if keys else range(0, cols, every), keys)
    long = keys is not None and max(map(len, keys), default=0) > 2
    turn = {"labelrotation": 90} if long else {}
    ax.tick_params(length=0)
    ax.tick_params("x", top=True, labeltop=True, labelbottom=False, **turn)
    ax.xaxis.set_label_position("top")
    ax.spines[:].set(visible=True, linewidth=0.5)
    ax.set(xlabel="key", ylabel="query", title=title or "", anchor="N")


def _panels(
    name: str, items: Mapping[str, Any], columns: int, on_a_phone: int = 1
) -> tuple[Figure, list[Axes]]:
    if not items or columns < 1:
        raise ValueError(
            f"{name} and columns must be at least one; got {len(items)} and "
            f"{columns}"
        )
    side, rows = 6.4 / columns, -(-len(items) // columns)
    size = (side * columns, (side + 0.3) * rows)
    picture, axes = figure(*size, rows, columns, columns=on_a_phone)
    panels = list(np.ravel(axes))
    for spare in panels[len(items) :]:
        spare.remove()
    return picture, panels[: len(items)]


def _matrix(name: str, x: Any) -> NDArray:
    cells = array(x)
    if cells.ndim != 2 or not cells.size:
        raise ValueError(
            f"{name} must have two axes, (L, S); got {cells.shape}: pass one "
            f"head, {name}[b, h]"
        )
    if cells.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be numbers; got {cells.dtype}")
    return cells.astype(float)


def _hidden_by(
    mask: Any, q_len: int | None, kv_len: int | None, q_offset: int = 0
) -> NDArray:
    """Return the masked cells of a mask of any kind, ``(L, S)``."""
    if hasattr(mask, "dense"):
        if q_len is None or q_len < 1:
            raise ValueError(
                f"q_len must be the number of queries of {mask!r}, 1 or more; "
                f"got {q_len}"
            )
        return ~array(mask.dense(q_len, kv_len, q_offset=q_offset))[0, 0]
    cells = _matrix("mask", mask)
    return cells == 0 if array(mask).dtype == bool else np.isneginf(cells)


def _axes(ax: Axes | None, rows: int, cols: int) -> tuple[Figure | None, Axes]:
    """Return the axes to draw on, in a new figure unless given."""
    if ax is not None:
        return None, ax
    cell = min(0.5, 5.0 / max(rows, cols))
    return figure(1.6 + cell * cols, 1.2 + cell * rows)
