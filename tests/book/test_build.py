"""The book is built once more: with an address, and without PyTorch."""

import json
import re
import shutil

import pytest

from tests.book.conftest import build
from tests.book.pages import ROOT, chapters, pages

pytestmark = pytest.mark.exhaustive

ADDRESS = "https://example.org/attention"
NEEDED = ["attn", "book", "notebooks", "solutions", "_config.yml", "_toc.yml"]


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Stored outputs, hints and solutions are data; the API pages are read."""
    folder = tmp_path_factory.mktemp("bare")
    source = folder / "book"
    source.mkdir()
    for name in NEEDED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    trap = folder / "trap"
    trap.mkdir()
    for module in ("torch", "transformers", "matplotlib"):
        (trap / f"{module}.py").write_text(
            f'raise ImportError("the book must not import {module}")\n'
        )
    return built(folder)


def built(folder):
    """Build a book beside a trap; return the folder of its pages."""
    places = {"PYTHONPATH": str(folder / "trap"), "BOOK_ADDRESS": ADDRESS}
    status, output = build(folder / "book", folder / "out", **places)
    assert status == 0, output[-4000:]
    return folder / "out" / "_build" / "html"


def test_a_book_with_an_address_has_a_sitemap(bare):
    text = (bare / "sitemap.xml").read_text("utf-8")
    listed = set(re.findall("<loc>([^<]*)</loc>", text))
    assert {f"{ADDRESS}/{page}.html" for page in pages()} <= listed
    page = (bare / f"{chapters()[0]}.html").read_text("utf-8")
    assert f'href="{ADDRESS}/{chapters()[0]}.html"' in page  # canonical


def test_a_shared_link_has_the_picture_of_its_page(bare):
    addresses = set()
    for page in chapters():
        text = (bare / f"{page}.html").read_text("utf-8")
        (address,) = re.findall('"og:image" content="([^"]*)"', text)
        addresses.add(address)
        file = bare / address.removeprefix(f"{ADDRESS}/")
        assert file.read_bytes().startswith(b"\x89PNG")
    assert len(addresses) == len(chapters())


def test_a_wrong_address_leads_to_the_search_and_the_chapters(bare):
    """At any depth, so that each link begins at the root of the server."""
    text = (bare / "404.html").read_text("utf-8")
    root = ADDRESS.removeprefix("https://").partition("/")[2]
    links = re.findall('(?:href|action)="([^"]*)"', text)
    assert len(links) > len(chapters()) + 3
    for link in links:
        place = link.removeprefix("/").removeprefix(root).removeprefix("/")
        assert link.startswith("/") and (bare / place).exists(), link


def index(folder):
    """What the search has: its places, and how often each word is in them."""
    text = (folder / "searchindex.js").read_text("utf-8")
    found = json.loads(text.partition("(")[2].rpartition(")")[0])
    names = [found["docnames"][place[0]] for place in found["places"]]
    places = [place[1:] for place in found["places"]]
    return names, places, found["terms"]


def test_a_book_is_built_again_where_only_a_chapter_has_changed(bare):
    """And its search still finds what is on the other pages."""
    before = index(bare)
    folder = bare.parents[2]
    (folder / "book" / f"{chapters()[0]}.ipynb").touch()
    assert index(built(folder)) == before and len(before[1]) > 1000
