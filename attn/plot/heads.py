"""Draw the heads of a model: a small map of each, and one of them large."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from torch import Tensor

from attn.plot.attention import attention_map
from attn.plot.figures import array, describe, figure
from attn.plot.looks import GREY, MAP, ORANGE, style
from attn.plot.touch import TouchFigure


@dataclass(frozen=True, eq=False)
class ModelAttention:
    """Hold a model's attention weights, which a notebook shows.

    In a notebook, and in a file ``.html``, it is an interactive figure that
    loads no other file: the mouse, a tap or the arrow keys choose a head
    and a query. ``figure()`` draws the same as a picture.

    Args:
        weights: ``(layers, heads, L, S)``.
        queries, keys: their tokens, ``L`` and ``S`` of them.
        layers, heads: the numbers that the model has for them.
        head: layer and head of the large map.
        title: above the figure.

    Example:
        >>> shown = attn.plot.ModelAttention(
        ...     torch.eye(2).expand(1, 3, 2, 2), ("the", "cat"),
        ...     ("the", "cat"), layers=(0,), heads=(0, 1, 2), head=(0, 1),
        ...     title="three heads",
        ... )
        >>> shown
        three heads: layers 1, heads 3, queries 2, keys 2
        >>> shown.save("heads.html")
    """

    weights: Tensor
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    head: tuple[int, int]
    title: str

    def __repr__(self) -> str:
        sizes = zip(
            ("layers", "heads", "queries", "keys"),
            self.weights.shape,
            strict=True,
        )
        return f"{self.title}: " + ", ".join(f"{x} {n}" for x, n in sizes)

    def _repr_html_(self) -> str:
        return self._touch()._repr_html_()

    def save(self, path: str | Path) -> None:
        """Write a file: ``.html``, or a picture such as ``.svg``, ``.png``.

        Args:
            path: its ending chooses the kind.
        """
        if Path(path).suffix == ".html":
            Path(path).write_text(self._touch().page(), encoding="utf-8")
            return
        with style():
            self.figure().savefig(path, bbox_inches="tight")

    def figure(self) -> Figure:
        """Draw all heads as small maps, and the chosen one large.

        A weight of exactly 0 is hatched as masked.
        """
        rows, columns = len(self.layers), len(self.heads)
        picture, (small, large) = figure(
            6.5, min(6.5, max(3.2, 0.25 * rows + 1)), 1, 2
        )
        _mosaic(small, array(self.weights), self._at)
        small.set(xlabel="head", ylabel="layer")
        weights = self.weights[self._at]
        attention_map(
            weights,
            self.queries,
            self.keys,
            masked=weights == 0,
            ax=large,
            title="layer {}, head {}".format(*self.head),
        )
        _label(small.xaxis, self.heads, len(self.keys) + 1)
        _label(small.yaxis, self.layers, len(self.queries) + 1)
        return describe(
            picture,
            f"{self}. Left: {rows} rows and {columns} columns of small maps, "
            f"a row for each layer. Right: layer {self.head[0]}, head "
            f"{self.head[1]}, with the tokens on both axes.",
        )

    @property
    def _at(self) -> tuple[int, int]:
        """Return where the large map is in the weights."""
        layer, head = self.head
        return self.layers.index(layer), self.heads.index(head)

    def _touch(self) -> TouchFigure:
        """Return the figure of MiniLM's heads with these numbers."""
        shares = (255 * self.weights).round().to(torch.uint8).contiguous()
        layer, head = self._at
        sentence: dict[str, Any] = {
            "tokens": self.queries,
            "weights": base64.b64encode(shares.numpy().tobytes()).decode(),
        }
        if self.keys != self.queries:
            sentence["keys"] = self.keys
        numbers = {
            "title": self.title,
            "layers": len(self.layers),
            "heads": len(self.heads),
            "numbers": {"layer": self.layers, "head": self.heads},
            "query": len(self.queries) - 1,
            "head": layer * len(self.heads) + head,
            "sentences": [sentence],
        }
        return TouchFigure("attention_heads", self.title, numbers)


def _mosaic(ax: Axes, weights: NDArray, chosen: tuple[int, int]) -> None:
    """Draw the small maps with a gap between them, as one image."""
    layers, heads, L, S = weights.shape
    tiles = np.full((layers, L + 1, heads, S + 1), np.nan)
    tiles[:, :L, :, :S] = weights.transpose(0, 2, 1, 3)
    image = tiles.reshape(layers * (L + 1), heads * (S + 1))
    ax.imshow(image, cmap=MAP, vmin=0, vmax=1)
    between: Any = {"color": GREY, "linewidth": 0.4}
    for i in range(1, layers):
        ax.axhline(i * (L + 1) - 1, **between)
    for i in range(1, heads):
        ax.axvline(i * (S + 1) - 1, **between)
    corner = chosen[1] * (S + 1) - 0.5, chosen[0] * (L + 1) - 0.5
    ax.add_patch(
        Rectangle(corner, S, L, fill=False, color=ORANGE, linewidth=2)
    )


def _label(axis: Axis, numbers: Sequence[int], step: int) -> None:
    """Write the numbers of layers or heads in the middle of their maps."""
    every = -(-len(numbers) // 12)
    shown = range(0, len(numbers), every)
    axis.set_ticks(
        [step * i + step / 2 - 1 for i in shown],
        [str(numbers[i]) for i in shown],
    )
    axis.set_tick_params(length=0)
