"""The text refers to figures and chapters by the numbers that they have."""

import json
import re

import pytest

from attn.exercises import APPENDICES, CHAPTERS
from tests.book.pages import ROOT, chapters, soup

MENTION = re.compile(r"\b[Cc]hapter (\d+|{ref})")
LINK = re.compile(r"\[[Cc]hapter (\d+)\]\((\d+)_\w+\.ipynb\)")
NUMBERS = {int(stem[:2]) for stem in CHAPTERS.values()}


def markdown(stem):
    """The text of a notebook, without its code."""
    path = ROOT / "notebooks" / f"{stem}.ipynb"
    cells = json.loads(path.read_text("utf-8"))["cells"]
    texts = ["".join(x["source"]) for x in cells if x["cell_type"] != "code"]
    return "\n\n".join(texts)


@pytest.mark.parametrize("page", chapters())
def test_the_text_refers_to_every_figure_by_its_number(page, book):
    article = soup(book / f"{page}.html").find("article")
    figures = {
        f"#{caption.find_parent('figure')['id']}": caption.find(
            "span", class_="caption-number"
        ).get_text(strip=True)
        for caption in article.find_all("figcaption")
    }
    referred = {
        (link["href"], link.get_text(strip=True))
        for link in article.find_all("a", href=figures.__contains__)
        if not link.find_parent("figcaption")
    }
    assert len(figures) >= 5
    assert set(figures.items()) - referred == set()


def test_a_link_to_a_chapter_has_the_number_of_its_file():
    links = [
        link
        for stem in (*CHAPTERS.values(), *APPENDICES)
        for link in LINK.findall(markdown(stem))
    ]
    assert len(links) >= len(CHAPTERS)
    assert [x for x in links if int(x[0]) != int(x[1])] == []


@pytest.mark.parametrize("stem", [*CHAPTERS.values(), *APPENDICES])
def test_a_chapter_that_exists_is_mentioned_by_a_link(stem):
    text = LINK.sub("", markdown(stem))
    plain = MENTION.findall(text)
    assert [x for x in plain if x == "{ref}" or int(x) in NUMBERS] == []
