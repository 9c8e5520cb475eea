"""Draw masks: filled where a query may attend, hatched elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
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
)
from attn.plot.figures import describe
from attn.plot.looks import BLUE, GREY


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

    Example:
        >>> figure = attn.plot.mask(attn.sliding_window(3), q_len=8)
        >>> figure.axes[0].get_title()
        'sliding_window(3)'
    """
    q_len = len(queries) if q_len is None and queries else q_len
    kv_len = len(keys) if kv_len is None and keys else kv_len
    hidden = hidden_by(mask, q_len, kv_len, q_offset)
    if title is None and hasattr(mask, "dense"):
        title = repr(mask)
    picture, ax = make_axes(ax, *hidden.shape)
    text = _draw_mask(ax, hidden, title)
    label(ax, hidden.shape, queries, keys, title)
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

    Example:
        >>> masks = {str(x): x for x in (attn.causal(), attn.window(1, 1))}
        >>> figure = attn.plot.masks_grid(masks, q_len=8, columns=2)
        >>> [axes.get_title() for axes in figure.axes]
        ['causal()', 'window(left=1, right=1)']
    """
    picture, panels = make_panels("masks", masks, columns, on_a_phone=2)
    texts = []
    for ax, (name, one) in zip(panels, masks.items(), strict=True):
        texts.append(_draw_mask(ax, hidden_by(one, q_len, kv_len), name))
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
    hatch(ax, hidden)
    seen = (~hidden).sum(-1)
    return (
        f"{title or 'Mask'}: {rows} queries down, {cols} keys across; "
        f"{seen.sum()} of {hidden.size} pairs may attend. The first query "
        f"sees {seen[0]}, the last {seen[-1]}."
    )
