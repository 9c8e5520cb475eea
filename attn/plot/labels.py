"""Write names beside curves and points: none on another, none on a curve.

What a name may cover depends on the layout, which is settled late, and again
for a phone: the functions here note what is named, and ``place`` finds room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from attn.plot.looks import GREY, style

_END, _POINT = "named end", "named point"
#: A leader is no curve: thin, dotted and grey.
_LEADER: Any = {
    "arrowstyle": "-",
    "color": GREY,
    "linewidth": 0.8,
    "linestyle": ":",
    "relpos": (0, 0.5),
    "shrinkA": 1,
    "shrinkB": 2,
}
ASIDE = 9  # pixels from the axes to the names of ends
SIDES = [  # of a point, best first
    *((1, 0), (-1, 0), (0, 1), (0, -1)),
    *((1, -1), (-1, 1), (1, 1), (-1, -1)),
    *((1, -3), (-1, 3), (1, 3), (-1, -3)),  # a line further away
]


def name_ends(ax: Axes, ends: Mapping[str, tuple[float, float, str]]) -> None:
    """Write the names of curves at the right of their axes.

    Args:
        ax: the axes of the curves.
        ends: of each curve its last ``x`` and ``y``, and its colour.

    Example:
        >>> figure, axes = attn.plot.figure(5, 3)
        >>> line = axes.plot([0, 1, 4], color=attn.plot.BLUE)
        >>> attn.plot.name_ends(axes, {"square": (2, 4, attn.plot.BLUE)})
    """
    for name, (x, y, color) in ends.items():
        at: Any = {"textcoords": "axes fraction", "va": "center"}
        at |= {"arrowprops": dict(_LEADER), "annotation_clip": False}
        ax.annotate(name, (x, y), (1.03, 0.5), color=color, gid=_END, **at)
    _place(ax)


def name_points(
    ax: Axes, points: Mapping[str, tuple[float, float]], color: str
) -> None:
    """Write the names of points beside them, where nothing else is drawn.

    Args:
        ax: the axes of the points.
        points: ``x`` and ``y`` of each.
        color: of the names.

    Example:
        >>> figure, axes = attn.plot.figure(5, 3)
        >>> dot = axes.plot(1, 2, "o", color=attn.plot.BLUE)
        >>> attn.plot.name_points(axes, {"here": (1, 2)}, attn.plot.BLUE)
    """
    for name, at in points.items():
        look: Any = {"textcoords": "offset points", "annotation_clip": False}
        look |= {"ha": "center", "va": "center", "gid": _POINT}
        ax.annotate(name, at, (0, 0), color=color, **look)
    _place(ax)


def place(figure: Figure) -> None:
    """Put the names of ends and points where there is room for them."""
    named = [ax for ax in figure.axes if any(map(_is_named, ax.texts))]
    if named:
        lay_out(figure)
    for ax in named:
        _place(ax)


def lay_out(figure: Figure) -> None:
    """Give the axes their places, as a drawing does, but draw nothing."""
    engine = figure.get_layout_engine()
    with style():
        if engine is not None:
            engine.execute(figure)
    for ax in figure.axes:
        ax.apply_aspect()


def _place(ax: Axes) -> None:
    """Put names where there is room in the present layout of the axes."""
    ax.get_ylim()  # limits are computed when they are read
    named: dict[str, list[Any]] = {_END: [], _POINT: []}
    for text in filter(_is_named, ax.texts):
        named[str(text.get_gid())].append(text)
    if named[_END]:
        _place_ends(ax, named[_END])
    _place_points(ax, named[_POINT])


def _is_named(text: Text) -> bool:
    return text.get_gid() in (_END, _POINT)


def _place_ends(ax: Axes, names: list[Any]) -> None:
    """Stack names as near to their ends as their heights allow."""
    box = ax.get_window_extent()
    ends = np.array([ax.transData.transform(x.xy)[1] for x in names])
    order = np.argsort(ends, kind="stable")
    tall = max(Text.get_window_extent(x).height for x in names)
    heights = spread(ends[order], tall, box.y0, box.y1)
    for name, end, height in zip(
        (names[i] for i in order), ends[order], heights, strict=True
    ):
        at = 1 + ASIDE / box.width, (height - box.y0) / box.height
        name.set_position(at)
        name.arrow_patch.set_visible(bool(abs(height - end) > tall / 4))


def spread(ends: NDArray, gap: float, low: float, high: float) -> NDArray:
    """Move sorted heights as little as possible, until ``gap`` is between.

    Neighbours too near each other move apart around their mean, all between
    ``low`` and ``high``.
    """
    steps = gap * np.arange(len(ends))
    blocks: list[list[float]] = []
    for height in ends - steps:
        blocks.append([height])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    level = np.concatenate([[np.mean(each)] * len(each) for each in blocks])
    return level.clip(low, high - steps[-1]) + steps


def _place_points(ax: Axes, names: list[Any]) -> None:
    """Write names of one colour on one side of their points, if it is free."""
    texts = *ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels()
    others = [x for x in texts if x not in names and x.get_text()]
    taken = [x.get_window_extent() for x in others]
    edge: Any = ax.get_window_extent().padded(1)

    def cost(side: tuple[int, int], box: Bbox) -> float:
        names = sum(box.overlaps(other) for other in taken)
        lines = sum(_covers(box.padded(4), line) for line in ax.lines)
        inside = edge.contains(*box.min) and edge.contains(*box.max)
        far = abs(side[1]) > 1
        return 2 * names + lines + (not inside) / 2 + far / 4

    for color in dict.fromkeys(x.get_color() for x in names):
        same = [x for x in names if x.get_color() == color]
        places = [_around(ax.transData.transform(x.xy), x) for x in same]
        total = {
            side: sum(cost(side, x[side]) for x in places) for side in SIDES
        }
        best = sorted(SIDES, key=total.__getitem__)
        for name, each in zip(same, places, strict=True):
            box = each[min(best, key=lambda side: cost(side, each[side]))]
            middle = np.array([box.x0 + box.x1, box.y0 + box.y1]) / 2
            away = middle - ax.transData.transform(name.xy)
            name.set_position(away * 72 / name.figure.dpi)
            taken.append(box)


def _covers(box: Bbox, line: Line2D) -> bool:
    """Return whether a box covers a curve, or one of its markers."""
    path = line.get_path().transformed(line.get_transform())
    if line.get_linestyle() == "None":
        return bool(box.count_contains(path.vertices))
    return path.intersects_bbox(box, filled=False)


def _around(point: NDArray, name: Text) -> dict[tuple[int, int], Bbox]:
    """Return the box of a name on each side of its point."""
    size: Any = Text.get_window_extent(name)
    half = np.array([size.width, size.height]) / 2
    boxes = {}
    for side in SIDES:
        middle = point + side * (half + ((7, 3) if all(side) else (9, 7)))
        boxes[side] = Bbox([middle - half, middle + half])
    return boxes
