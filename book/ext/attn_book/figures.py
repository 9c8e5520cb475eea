"""Show the drawing of a figure where there is one, and its PNG elsewhere.

`attn refresh` writes ``book/figures/<notebook>/<figure>.svg``, and one more
for phones. Both go into the page, where the stylesheet ``figures.css`` gives
them the theme's colours and shows the one that fits; caption, number and alt
text are those of the notebook.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DRAWINGS = Path(__file__).parents[2] / "figures"
KINDS = {"": "wide", "-narrow": "narrow"}


def setup(app: Sphinx) -> None:
    app.add_node(drawing, html=(visit, lambda writer, node: None))
    app.add_post_transform(Draw)


class drawing(nodes.General, nodes.Inline, nodes.Element):
    """The drawings of one figure."""


class Draw(SphinxPostTransform):
    """Put drawings in the place of stored images."""

    default_priority = 500
    formats = ("html",)

    def run(self, **_: Any) -> None:
        folder = DRAWINGS / Path(self.env.docname).name
        for figure in list(self.document.findall(nodes.figure)):
            for name in figure["names"]:
                files = {k: folder / f"{name}{k}.svg" for k in KINDS}
                if files[""].exists():
                    image = next(iter(figure.findall(nodes.image)))
                    texts = {
                        KINDS[k]: file.read_text("utf-8")
                        for k, file in files.items()
                        if file.exists()
                    }
                    new = drawing(alt=image["alt"], texts=texts)
                    image.parent.replace(image, new)


def visit(writer: Any, node: drawing) -> None:
    alt = escape(node["alt"])
    writer.body.append('<div class="drawn">')
    for kind, text in node["texts"].items():
        about = f'<svg class="{kind}" role="img" aria-label="{alt}" '
        writer.body.append(text.replace("<svg ", about, 1))
    writer.body.append("</div>")
