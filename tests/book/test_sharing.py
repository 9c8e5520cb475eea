"""What a page tells search engines, and those with whom it is shared."""

import json
import re
from html import unescape

import pytest

from tests.book.pages import ROOT, chapters, pages

FIELD = r'<meta (?:name|property)="{}" content="([^"]*)"'


def field(book, page, name):
    text = (book / f"{page}.html").read_text("utf-8")
    contents = re.findall(FIELD.format(name), text)
    assert len(contents) == 1, f"{page}: {len(contents)} of {name}"
    return unescape(contents[0])


@pytest.mark.parametrize("page", pages())
def test_a_page_has_one_description_of_its_own(book, page):
    description = field(book, page, "description")
    assert len(description) > 40
    assert field(book, page, "og:description") == description
    assert field(book, page, "og:site_name") == "Attention, built by hand"
    others = [x for x in pages() if x != page]
    assert description not in [field(book, x, "description") for x in others]


@pytest.mark.parametrize("page", chapters())
def test_a_chapter_is_described_by_its_summary(book, page):
    about = json.loads((ROOT / f"{page}.ipynb").read_text("utf-8"))
    summary = re.sub(r"[`$*\\]", "", about["metadata"]["attn"]["summary"])
    assert field(book, page, "description") == summary


@pytest.mark.parametrize("page", pages())
def test_the_head_of_a_page_says_each_thing_once(book, page):
    """Without the address of the book, a page gives none of its own."""
    head = (book / f"{page}.html").read_text("utf-8").partition("</head>")[0]
    assert head.count('name="viewport"') == 1
    (title,) = re.findall("<title>(.+)</title>", head)
    assert title.count("built by hand") == 1
    addresses = re.findall(FIELD.format("og:url"), head)
    addresses += re.findall(FIELD.format("og:image"), head)
    assert all(x.startswith("https://") for x in addresses)
