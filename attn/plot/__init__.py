"""The pictures and tables of this book, in one style."""

from attn.plot.attention import attention_map, attention_maps
from attn.plot.curves import histograms, lines
from attn.plot.figures import alt_text, describe, figure
from attn.plot.heads import ModelAttention
from attn.plot.labels import name_ends, name_points
from attn.plot.looks import (
    BLUE,
    GOLD,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    color_of,
    style,
)
from attn.plot.masks import mask, masks_grid
from attn.plot.models import model_attention
from attn.plot.tables import Table

__all__ = [
    "attention_map",
    "attention_maps",
    "model_attention",
    "ModelAttention",
    "mask",
    "masks_grid",
    "lines",
    "name_ends",
    "name_points",
    "histograms",
    "figure",
    "style",
    "color_of",
    "describe",
    "alt_text",
    "Table",
    "BLUE",
    "GOLD",
    "GREEN",
    "GREY",
    "ORANGE",
    "PURPLE",
]
