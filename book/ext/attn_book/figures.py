"""Show the drawing of a figure where there is one, and its PNG elsewhere.

`attn refresh` writes ``book/figures/<notebook>/<figure>.svg``, and one more
for phones. Both go into the page, where the stylesheet ``figures.css`` gives
them the theme's colours and shows the one that fits; caption, number and alt
text are those of the notebook.
"""

from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

DRAWINGS = Path(__file__).parents[2] / "figures"


def setup(app: Sphinx) -> None:
    app.add_post_transform(Draw)


class Draw(SphinxPostTransform):
    """Put drawings in the place of stored images."""

    default_priority = 500
    formats = ("html",)

    def run(self, **_: Any) -> None:
        folder = DRAWINGS / Path(self.env.docname).name
        for figure in list(self.document.findall(nodes.figure)):
            for name in figure["names"]:
                files = [folder / f"{name}{x}.svg" for x in ("", "-narrow")]
                if files[0].exists():
                    image = next(figure.findall(nodes.image))
                    drawn = (svg(x, image["alt"]) for x in files if x.exists())
                    box = f'<div class="drawn">{"".join(drawn)}</div>'
                    image.replace_self(nodes.raw("", box, format="html"))


def svg(file: Path, alt: str) -> str:
    """Return a drawing as HTML, with the alt text of its figure."""
    kind = "narrow" if file.stem.endswith("-narrow") else "wide"
    label = f'class="{kind}" role="img" aria-label="{escape(alt)}"'
    return file.read_text("utf-8").replace("<svg ", f"<svg {label} ", 1)
