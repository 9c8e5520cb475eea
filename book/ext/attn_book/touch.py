"""Put the figures that one can touch on the pages of the chapters.

A code cell tagged ``touch-mask_workbench`` draws the stored figure; below it
the page gets a place for ``book/_static/touch/mask_workbench.js``, and loads
that script and its data. Without JavaScript the stored figure is all there is;
a script that shows the same takes the place of its picture, above the caption.
In a Markdown page, ``<!-- touch-attention_heads -->`` below a figure gives the
place for the short form.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

TAG = "touch-"
MARK = re.compile(rf"<!-- {TAG}(\w+) -->")


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_places)
    app.connect("html-page-context", add_scripts)


def add_places(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add a place after each tagged cell, or for each mark of a page."""
    if not docname.startswith("notebooks/"):
        source[0] = MARK.sub(lambda m: place(m[1], "touch short"), source[0])
        return
    notebook = json.loads(source[0])
    cells = []
    for cell in notebook["cells"]:
        cells.append(cell)
        for name in names(cell):
            cells.append(
                {
                    "cell_type": "markdown",
                    "id": f"place-{name}"[:64],
                    "metadata": {},
                    "source": place(name),
                }
            )
    source[0] = json.dumps({**notebook, "cells": cells})


def names(cell: dict[str, Any]) -> list[str]:
    """Return the figures that a cell is tagged with."""
    tags = cell["metadata"].get("tags", [])
    return [tag.removeprefix(TAG) for tag in tags if tag.startswith(TAG)]


def place(name: str, kind: str = "touch") -> str:
    return (
        "```{raw} html\n"
        f'<div class="{kind}" data-touch="{name}" role="group" '
        f'aria-label="Interactive figure"></div>\n'
        "```"
    )


def add_scripts(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: Any,
) -> None:
    """Load a figure's scripts on the pages that have a place for it."""
    body = context.get("body", "")
    found = [part.partition('"')[0] for part in body.split('data-touch="')[1:]]
    for name in dict.fromkeys(found):
        for file in ("touch.js", f"{name}.data.js", f"{name}.js"):
            app.add_js_file(f"touch/{file}", loading_method="defer")
