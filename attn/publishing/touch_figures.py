"""Show the book's interactive figures in a notebook, without the network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it loads matplotlib
    from attn.plot.touch import TouchFigure


def touch(name: str) -> TouchFigure:
    """Return an interactive figure of the book, for a notebook to show.

    Args:
        name: of a script in ``book/_static/touch``, such as ``rope_dial``.

    Raises:
        ValueError: the book has no figure of this name.
    """
    from attn.plot.touch import TouchFigure, folder

    known = sorted(x.name[:-8] for x in folder().glob("*.data.js"))
    if name not in known:
        raise ValueError(
            f"name must be one of {', '.join(known)}; got {name!r}"
        )
    script = (folder() / f"{name}.js").read_text("utf-8")
    (title,) = re.findall(r'\btitle: "(.+?)"', script)
    return TouchFigure(name, title)
