"""What a page tells search engines, and those with whom it is shared."""

import json
import re
from html import unescape

import pytest

from tests.book.conftest import build
from tests.book.pages import ROOT, chapters, pages

FIELD = r'<meta (?:name|property)="{}" content="([^"]*)"'


def field(book, page, name):
    text = (book / f"{page}.html").read_text("utf-8")
    found = re.findall(FIELD.format(name), text)
    assert len(found) == 1, f"{page}: {len(found)} of {name}"
    return unescape(found[0])


@pytest.mark.parametrize("page", pages())
def test_a_page_has_one_description_of_its_own(book, page):
    said = field(book, page, "description")
    assert len(said) > 40
    assert field(book, page, "og:description") == said
    assert field(book, page, "og:site_name") == "Attention, built by hand"
    others = [x for x in pages() if x != page]
    assert said not in [field(book, x, "description") for x in others]


@pytest.mark.parametrize("page", chapters())
def test_a_chapter_is_described_by_its_summary(book, page):
    about = json.loads((ROOT / f"{page}.ipynb").read_text("utf-8"))
    summary = re.sub(r"[`$*\\]", "", about["metadata"]["attn"]["summary"])
    assert field(book, page, "description") == summary


@pytest.mark.exhaustive
def test_with_an_address_there_is_a_sitemap(tmp_path):
    address = "https://example.org/attention"
    status, said = build(ROOT, tmp_path, BOOK_ADDRESS=address)
    assert status == 0, said[-4000:]
    built = tmp_path / "_build" / "html"
    listed = re.findall(
        "<loc>([^<]*)</loc>", (built / "sitemap.xml").read_text("utf-8")
    )
    assert {f"{address}/{page}.html" for page in pages()} <= set(listed)
    page = (built / f"{chapters()[0]}.html").read_text("utf-8")
    assert f'href="{address}/{chapters()[0]}.html"' in page  # canonical
