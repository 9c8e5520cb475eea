"""The book's Sphinx extension, for what Jupyter Book does not do."""

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

# `attn` is imported from this checkout, only where no torch is needed.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

#: A reader installs none of these: outputs are stored, autodoc mocks them.
ABSENT = ("torch", "transformers", "matplotlib")
PARTS = (
    "exercises",  # cards, hints and solutions on the pages of the chapters
    "chapters",  # the list of chapters on the front page
    "api",  # the API pages, without torch
    "figures",  # drawings in the colours of the page's theme
    "maths",  # formulas, typeset when the book is built
    "numbering",  # chapters and figures have the numbers of the files
    "search",  # sections, terms and functions, for the search to rank
    "previews",  # what links lead to, for the page to show
    "mistakes",  # for teachers, a page a chapter
    "museum",  # the museum as a gallery, with an index to filter
    "sharing",  # descriptions, and a sitemap when the address is known
    "repository",  # links to the repository, and the learner's copies
)


class Absent(MetaPathFinder):
    """Fails to import what no page may need."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name in ABSENT:
            raise ModuleNotFoundError(f"no page may need {name}", name=name)


def setup(app: Sphinx) -> dict[str, Any]:
    if imported := [name for name in ABSENT if name in sys.modules]:
        raise ImportError(f"{imported} are imported: no page may need them")
    sys.meta_path.insert(0, Absent())
    for part in PARTS:
        import_module(f"attn_book.{part}").setup(app)
    safe = {"parallel_read_safe": True, "parallel_write_safe": True}
    return {**safe, "env_version": 1}  # of what `search` keeps of a page
