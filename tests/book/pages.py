"""The pages of the book, from its table of contents."""

import functools
import re
from pathlib import Path

from bs4 import BeautifulSoup

from attn.exercises import CHAPTERS
from attn.publishing.myst_to_markdown.targets import notebook
from book.paper import parts
from tests.marks import exhaustive_but

ROOT = Path(__file__).resolve().parents[2]
FIGURES = {  # those that one can touch, and their pages
    tag.removeprefix("touch-"): f"notebooks/{stem}"
    for stem in CHAPTERS.values()
    for cell in notebook(stem)["cells"]
    for tag in cell["metadata"].get("tags", [])
    if tag.startswith("touch-")
}


@functools.cache
def soup(path):
    """A built page, parsed once for all tests: no test may change it."""
    return BeautifulSoup(path.read_text("utf-8"), "html.parser")


API = sorted(f"book/api/{x.stem}" for x in ROOT.glob("book/api/*.md"))


def pages():
    """Every page, as a path without its ending."""
    printed = [page for _, part in parts(ROOT) for page in part]
    return [*printed, *(page for page in API if page not in printed)]


#: One page of each kind.
KINDS = ["book/intro", "book/api/masks", "notebooks/museum"]
KINDS += ["notebooks/02_scaled_dot_product"]


def views():
    """Every page, as parameters: one of each kind is for `make test`."""
    return exhaustive_but(KINDS, pages())


def chapters():
    """Notebooks with a number; appendices have none."""
    return [page for page in pages() if re.match(r"notebooks/\d", page)]
