"""The book's Sphinx extension, for what Jupyter Book does not do.

``exercises``   labels, hints and solutions on the pages of the chapters
``chapters``    the list of chapters on the front page
``downloads``   the download button gives a notebook without check outputs
``api``         the API page, from static analysis
``figures``     drawings in the colours of the page's theme
``folds``       the name of a folded cell is what is written on it
``offline``     no script that uses the network
``numbering``   chapters, sections and figures have the numbers of the files
``touch``       figures that one can touch
``sharing``     descriptions, and a sitemap when the address is known
``repository``  links to the repository, when its address is known
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# `attn` is imported from this checkout, only where no torch is needed.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

#: A reader installs none of these: outputs are stored, the API page is read.
ABSENT = ("torch", "transformers", "matplotlib")


def setup(app: Sphinx) -> dict[str, Any]:
    for name in ABSENT:
        if sys.modules.get(name):
            raise ImportError(f"{name} is imported: no page may need it")
        sys.modules[name] = None  # type: ignore[assignment]  # import fails
    from attn_book import (
        api,
        chapters,
        downloads,
        exercises,
        figures,
        folds,
        numbering,
        offline,
        repository,
        sharing,
        touch,
    )

    for part in (
        exercises,
        chapters,
        downloads,
        api,
        figures,
        folds,
        numbering,
        offline,
        repository,
        sharing,
        touch,
    ):
        part.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
