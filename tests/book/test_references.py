"""The text refers to figures and chapters by the numbers that they have."""

import re

import pytest

from attn.exercises import CHAPTERS
from attn.publishing.myst_to_markdown.targets import notebook
from tests.book.pages import chapters, soup
from tests.book.test_copies import STEMS, markdown

MENTION = re.compile(r"\b[Cc]hapter (\d+|{ref})")
LINK = re.compile(r"\[[Cc]hapter (\d+)\]\((\d+)_\w+\.ipynb\)")
NUMBERS = {int(stem[:2]) for stem in CHAPTERS.values()}


@pytest.mark.parametrize("page", chapters())
def test_the_text_refers_to_every_figure_by_its_number(page, book):
    article = soup(book / f"{page}.html").find("article")
    figures = {
        f"#{number.find_parent('figure')['id']}": number.get_text(strip=True)
        for number in article.select("figcaption .caption-number")
    }
    referred = {
        (link["href"], link.get_text(strip=True))
        for link in article.find_all("a", href=figures.__contains__)
        if not link.find_parent("figcaption")
    }
    assert len(figures) >= 5
    assert set(figures.items()) - referred == set()


@pytest.mark.parametrize("stem", STEMS)
def test_a_chapter_that_exists_is_mentioned_by_a_link_to_its_number(stem):
    text = markdown(notebook(stem))
    links = LINK.findall(text)
    assert links and [x for x in links if int(x[0]) != int(x[1])] == []
    plain = MENTION.findall(LINK.sub("", text))
    assert [x for x in plain if x == "{ref}" or int(x) in NUMBERS] == []
