"""The colours and the matplotlib style of the book's figures."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import matplotlib as mpl
from matplotlib.colors import LinearSegmentedColormap

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


def style() -> AbstractContextManager[None]:
    """Apply the book's matplotlib style within a ``with`` block."""
    return mpl.rc_context(_STYLE)
