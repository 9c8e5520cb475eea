"""Load the figures that one can touch on the pages that have them.

A page has a place for ``book/_static/touch/mask_workbench.js``, below the
stored figure: the one of a chapter is added by ``exercises``. Without
JavaScript the stored figure is all there is; a script that shows the same
takes the place of its picture, above the caption.
"""

import re
from typing import Any

from sphinx.application import Sphinx

PLACE = re.compile(r'data-touch="(\w+)"')


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", add_scripts)


def add_scripts(
    app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any
) -> None:
    """Load a figure's scripts on the pages that have a place for it."""
    for name in dict.fromkeys(PLACE.findall(context.get("body", ""))):
        for file in ("touch.js", f"{name}.data.js", f"{name}.js"):
            app.add_js_file(f"touch/{file}", loading_method="defer")
