"""The pictures of this book: attention and masks, in one style."""

from attn.plot.attention import attention_map, attention_maps, mask, masks_grid
from attn.plot.figures import (
    BLUE,
    GREY,
    ORANGE,
    alt_text,
    describe,
    figure,
    histograms,
    lines,
    style,
)

__all__ = [
    "BLUE",
    "GREY",
    "ORANGE",
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
