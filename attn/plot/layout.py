"""Settle what a style cannot say: maps, powers, the size of labels."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FuncFormatter,
    LogFormatter,
    LogLocator,
    NullFormatter,
)

from attn.plot.labels import lay_out, place
from attn.plot.looks import FONT, MAP, SMALLEST


def settle(figure: Figure) -> None:
    """Give a figure the one map, and powers that are no formulas."""
    for ax in figure.axes:
        for image in ax.images:
            if image.get_cmap() != MAP:
                image.set_cmap(MAP)
        ax.title.set_fontsize(FONT)
        for axis in (ax.xaxis, ax.yaxis):
            if isinstance(axis.get_major_formatter(), LogFormatter):
                low, high = sorted(axis.get_view_interval())
                if high < 30 * low:  # else one label or none
                    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axis.set_major_formatter(FuncFormatter(_power))
                axis.set_minor_formatter(NullFormatter())
    fit_labels(figure)
    place(figure)


def fit_labels(figure: Figure) -> None:
    """Make the labels of a map's rows and columns as small as its cells."""
    maps = [
        ax
        for ax in figure.axes
        if ax.get_aspect() != "auto"
        and max(len(ax.get_xticks()), len(ax.get_yticks())) > 8
    ]
    for ax in maps:
        ax.tick_params(labelsize=FONT)
    if maps:
        lay_out(figure)
    for ax in maps:
        rows = ax.transData.transform([(0, 0), (1, 1)])
        cell = abs(rows[1] - rows[0]).min() * 72 / figure.dpi
        if cell < FONT / 0.85:
            ax.tick_params(labelsize=max(SMALLEST, 0.85 * cell))


def _power(x: float, _: int) -> str:
    if 0.001 < x < 10_000:
        return f"{x:g}"
    digits = str(round(np.log10(x)))
    return "10" + digits.translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
