"""Draw what maps of attention and masks share: axes, labels and hatches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from attn.plot.figures import array, check_named, figure
from attn.plot.looks import GREY

Labels = Sequence[str] | None


def make_axes(
    ax: Axes | None, rows: int, cols: int
) -> tuple[Figure | None, Axes]:
    """Return the axes to draw on, in a new figure unless given."""
    if ax is not None:
        return None, ax
    cell = min(0.5, 5.0 / max(rows, cols))
    return figure(1.6 + cell * cols, 1.2 + cell * rows)


def make_panels(
    name: str, items: Mapping[str, Any], columns: int, on_a_phone: int = 1
) -> tuple[Figure, list[Axes]]:
    """Return a figure and the axes of each item, ``columns`` in a row."""
    check_named(name, items)
    if not isinstance(columns, int):
        raise TypeError(f"columns must be an int; got {columns!r}")
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


def label(
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


def hatch(ax: Axes, hidden: NDArray) -> None:
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


def matrix(name: str, x: Any) -> NDArray:
    """Return numbers with two axes as an array of floats, or raise."""
    cells = array(x)
    if cells.ndim != 2 or not cells.size:
        raise ValueError(
            f"{name} must have two axes, (L, S); got {cells.shape}: pass one "
            f"head, {name}[b, h]"
        )
    if cells.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be numbers; got {cells.dtype}")
    return cells.astype(float)


def hidden_by(
    mask: Any, q_len: int | None, kv_len: int | None, q_offset: int = 0
) -> NDArray:
    """Return the masked cells of a mask of any kind, ``(L, S)``."""
    if hasattr(mask, "dense"):
        if not isinstance(q_len, int) or q_len < 1:
            raise ValueError(
                f"q_len must be the number of queries of {mask!r}, 1 or more; "
                f"got {q_len!r}"
            )
        return ~array(mask.dense(q_len, kv_len, q_offset=q_offset))[0, 0]
    cells = matrix("mask", mask)
    return cells == 0 if array(mask).dtype == bool else np.isneginf(cells)
