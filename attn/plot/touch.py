"""Put an interactive figure into a page of its own, without the network.

The page holds all it needs: stylesheets, scripts and numbers of
``book/_static/touch``. ``touch.html`` gives it the theme of what is around
it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any

_FRAME = (
    '<iframe title="{title}" srcdoc="{page}" width="100%" height="560" '
    'style="display: block; border: 0">{untrusted}</iframe>'
)
_UNTRUSTED = (
    "A figure to touch is here when this cell has run, or when the notebook "
    "is trusted."
)


def folder() -> Path:
    """Return the figures' folder, in a checkout or in the package."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "_book"
    root = inside if inside.is_dir() else package.parent
    return root / "book" / "_static" / "touch"


@dataclass(frozen=True)
class TouchFigure:
    """Hold an interactive figure, which a notebook shows.

    Args:
        name: of a script in ``book/_static/touch``.
        title: its name in a screen reader.
        numbers: that the script draws; the book's own when None.
    """

    name: str
    title: str
    numbers: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return f"{self.title} (an interactive figure)"

    def _repr_html_(self) -> str:
        return _FRAME.format(
            title=escape(self.title),
            page=escape(self.page()),
            untrusted=_UNTRUSTED,
        )

    def page(self) -> str:
        """Return the figure as an HTML document that loads no other file."""
        place = folder()
        styles = (place.parent / "figures.css", place / "touch.css")
        parts = (
            _read(place / "touch.js"),
            self._data(place),
            _read(place / f"{self.name}.js"),
        )
        page = Template(_read(Path(__file__).with_name("touch.html")))
        return page.substitute(
            name=self.name,
            title=escape(self.title),
            styles="\n".join(map(_read, styles)),
            scripts="\n".join(f"<script>{x}</script>" for x in parts),
        )

    def _data(self, place: Path) -> str:
        if self.numbers is None:
            return _read(place / f"{self.name}.data.js")
        numbers = json.dumps(self.numbers, separators=(",", ":"))
        # A token may be a tag that ends the script.
        return f"Play.data.{self.name} = {numbers};".replace("<", r"\u003c")


def _read(path: Path) -> str:
    return path.read_text("utf-8")
