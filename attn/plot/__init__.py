"""The pictures and tables of this book, in one style."""

from attn.plot.attention import attention_map, attention_maps
from attn.plot.curves import histograms, lines
from attn.plot.figures import alt_text, describe, figure
from attn.plot.looks import (
    BLUE,
    GOLD,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    style,
)
from attn.plot.masks import mask, masks_grid
from attn.plot.tables import Table

__all__ = [
    "BLUE",
    "GOLD",
    "GREEN",
    "GREY",
    "ORANGE",
    "PURPLE",
    "Table",
    "alt_text",
    "attention_map",
    "attention_maps",
    "describe",
    "figure",
    "histograms",
    "lines",
    "mask",
    "masks_grid",
    "style",
]
