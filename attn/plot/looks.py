"""The colours and the matplotlib style of the book's figures."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from itertools import cycle
from typing import Any

import matplotlib as mpl
from matplotlib.colors import LinearSegmentedColormap

from attn import arguments

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
#: What the chapters compare: a name has one colour in the whole book.
_COMPARED = {
    BLUE: (
        *("look back", "RoPE", "Llama 3", "GQA", "queries", "dQ", "full"),
        *("divided by √D", "over √D", "yours", "tiles", "fused", "grouped"),
        *("auto", "triton", "triton_split_kv"),
    ),
    ORANGE: (
        *("RNN", "sinusoidal", "waves", "linear", "MHA", "keys", "dK and dV"),
        *("unscaled", "plain", "naive", "unfused", "scores in memory"),
        *("FA2", "visited"),
    ),
    GREEN: (
        *("LSTM", "ALiBi", "NTK", "NTK-aware", "MQA", "values", "decode"),
        *("PyTorch", "SDPA", "SDPA with a mask", "enable_gqa"),
    ),
    PURPLE: ("convolutions", "pass on", "YaRN", "cuDNN"),
    GOLD: (
        *("average", "learned", "MiniLM", "as trained", "compiled", "Flex"),
    ),
    GREY: ("none", "H100", "H200", "laptop"),
}
_COLOR = {name: color for color, names in _COMPARED.items() for name in names}
DASHES = "-", "--", ":"
#: What is written on a coloured cell or bar.
INK, PAPER = "#000000", "#ffffff"
#: Attention maps: from nothing to everything, in a hundred steps.
LEVELS = 101
MAP = LinearSegmentedColormap.from_list("attn", [PAPER, "#0b3c78"], LEVELS)
#: From this share on, PAPER reads better on MAP than INK, in both themes.
DARK = 0.695

FONT, SMALLEST = 10, 6.8  # points; the smallest are 9 pixels on a page
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
    "image.composite_image": False,  # it would show hidden images
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


def color_of(name: str) -> str | None:
    """Return the colour that a name has in every figure of the book, if any.

    A part that ends with a comma is enough: ``"decode, G = 8"`` has the
    colour of ``"decode"``.

    Example:
        >>> attn.plot.color_of("RNN") == attn.plot.ORANGE
        True
        >>> attn.plot.color_of("a curve of mine") is None
        True
    """
    arguments.text("name", name)
    parts = (_COLOR.get(part) for part in name.split(", "))
    return next(filter(None, parts), None)


def looks(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the colour and the dashes of each curve.

    Names that the book does not fix take the colours that are left.
    """
    fixed = [color_of(name) for name in names]
    rest = cycle([c for c in COLORS if c not in fixed] or COLORS)
    colors = [color or next(rest) for color in fixed]
    return [
        (color, DASHES[colors[:i].count(color) % len(DASHES)])
        for i, color in enumerate(colors)
    ]


def style() -> AbstractContextManager[None]:
    """Apply the book's matplotlib style within a ``with`` block.

    Example:
        >>> from matplotlib import pyplot as plt
        >>> with attn.plot.style():
        ...     figure, axes = plt.subplots()
        ...     line = axes.plot([1, 2, 4], color=attn.plot.BLUE)
        >>> plt.close(figure)
    """
    return mpl.rc_context(_STYLE)
