"""The book's figures.

A figure shows itself once in a notebook, as a PNG of double resolution with
its description: transparent ground, grey text, colours that read on white
and on black. ``svg.py`` draws the same figure for the pages of the book,
where each colour has a value for either theme.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attn.plot.layout import settle
from attn.plot.looks import MAP, style
from attn.plot.svg import drawings

SVG, NARROW = "image/svg+xml", "image/svg+xml;layout=narrow"


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
            shown |= zip(
                (SVG, NARROW), drawings(self, self.columns), strict=False
            )
        return shown, {"image/png": size}


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

    Example:
        >>> figure, (left, right) = attn.plot.figure(6.5, 3, 1, 2)
        >>> title = left.set_title("before")
        >>> title = right.set_title("after")
        >>> figure.savefig("figure.svg")
    """
    with style():
        picture = Picture(figsize=(width, height))
        picture.columns = columns
        return picture, picture.subplots(*grid)


def alt_text(figure: Figure) -> str:
    """Return the description of a figure; empty without one.

    Example:
        >>> figure = attn.plot.attention_map(torch.eye(2), ["the", "cat"])
        >>> attn.plot.alt_text(figure).split(". ")[0]
        'Attention: 2 queries down, 2 keys across'
    """
    return str(figure.get_label() or "")


def describe(figure: Figure, text: str) -> Figure:
    """Set the description of a figure in words, its alt text.

    Example:
        >>> figure, axes = attn.plot.figure(4, 3)
        >>> figure = attn.plot.describe(figure, "An empty pair of axes.")
        >>> attn.plot.alt_text(figure)
        'An empty pair of axes.'
    """
    figure.set_label(text)
    return figure


def array(x: Any) -> NDArray:
    """Convert a tensor, an array or a list to an array."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = (x.float() if x.is_floating_point() else x).numpy()
    return np.asarray(x)


def check_named(name: str, x: Any) -> None:
    """Require a mapping."""
    if not isinstance(x, Mapping):
        raise TypeError(
            f"{name} must be a dictionary by name; got {type(x).__name__}"
        )
