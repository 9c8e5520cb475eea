"""Print the whole book to one PDF with the system's Chromium.

    python -m book.paper _build/html _build/book.pdf

The built pages are put into one document: a cover, contents with page numbers,
the chapters, then the answers to questions and exercises. Code that is folded
on the screen is left out: it draws the figures, and the notebooks have it. So
are cells that check an answer, the rooms of the API, and the docstrings of
solutions, which are the tasks again.
Chromium prints the document twice: the first print tells the page of
everything that is referred to.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import yaml
from tqdm import tqdm

from book.browser import chromium

HERE = Path(__file__).parent
ROOMS = "book/api/"
API = f"{ROOMS}index"
LOADED = """() => Promise.all([
    document.fonts.ready, ...[...document.images].map(x => x.decode()),
]).then(() => 0)"""


def parts(root: Path) -> list[tuple[str, list[str]]]:
    """Return the names of the book's parts, and the pages of each.

    Of the API, only the list of rooms: the rest is searched, on a screen.
    """
    contents = yaml.safe_load((root / "_toc.yml").read_text("utf-8"))
    found = [("", [contents["root"]])]
    for part in contents["parts"]:
        pages = [
            page["file"]
            for chapter in part["chapters"]
            for page in (chapter, *chapter.get("sections", ()))
            if page["file"] == API or not page["file"].startswith(ROOMS)
        ]
        found.append((part["caption"], pages))
    return found


def printed(
    built: Path, wanted: list[tuple[str, list[str]]], browser: Any
) -> bytes:
    """Return the PDF of the pages that are wanted.

    Args:
        built: the folder of the built pages.
        wanted: the parts of the book, and the pages of each.
        browser: a Chromium of Playwright's.
    """
    tab = browser.new_page(color_scheme="light")
    script = (HERE / "paper.js").read_text("utf-8")
    names = [page for _, pages in wanted for page in pages]
    gathered = []
    tab.route("**/*.js*", lambda route: route.abort())
    for name in tqdm(names, "reading", unit="page", leave=False):
        tab.goto((built / f"{name}.html").resolve().as_uri())
        tab.add_script_tag(content=script)
        gathered.append(
            tab.evaluate("([n, all]) => gather(n, all)", [name, names])
        )
    tab.unroute("**/*.js*")
    with tqdm(total=3, desc="printing", unit="step", leave=False) as bar:
        # Not index.html, which leads on to another page.
        tab.goto((built / f"{names[0]}.html").resolve().as_uri())
        tab.add_script_tag(content=script)
        tab.add_style_tag(path=HERE / "paper.css")
        captions = [caption for caption, _ in wanted]
        sizes = [len(pages) for _, pages in wanted]
        tab.evaluate("x => assemble(...x)", [gathered, captions, sizes])
        tab.evaluate(LOADED)
        bar.update()
        first = tab.pdf(prefer_css_page_size=True)
        bar.update()
        tab.evaluate("numbers => fill(numbers)", _page_numbers(first))
        second = _print(tab)
        bar.update()
    tab.close()
    return second


def _print(tab: Any) -> bytes:
    made: bytes = tab.pdf(
        prefer_css_page_size=True,
        print_background=True,
        outline=True,
        tagged=True,
    )
    return made


def _page_numbers(pdf: bytes) -> dict[str, int]:
    """Return the page on which each target of a link stands, from 1."""
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(pdf))
    return {
        name.lstrip("/"): (reader.get_destination_page_number(where) or 0) + 1
        for name, where in reader.named_destinations.items()
    }


def main(built: Path, target: Path) -> None:
    """Print the book, and say where it is."""
    with chromium("pypdf") as browser:
        target.write_bytes(printed(built, parts(HERE.parent), browser))
    print(f"The book: {target.resolve()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
