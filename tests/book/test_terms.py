"""Chapters link the terms of the glossary, each where it is first used."""

import re

import pytest

from attn.publishing.myst_to_markdown.targets import targets
from tests.book.pages import pages, soup
from tests.book.test_copies import STEMS

NOT_PROSE = (
    "figure, table, details, .admonition, .exercise-card, .cell, .sd-card"
)
NO_PLACE_FOR_A_LINK = (
    ":is(h1, h2, h3, h4, figcaption, .exercise-card) .std-term"
)
NOT_TEXT = ("code", "pre", "h1", "h2", "h3", "h4")

#: Words that have other meanings, too ("kernel regression", "the weights of
#: the model"): linked where a link helps.
EVERYDAY = """
    bias grid head kernel key mask query rank scale scores tile value weights
"""


def prose(article):
    """The texts of a chapter's paragraphs, those of terms with their link."""
    outside = {id(x) for x in article.select(NOT_PROSE)}
    for text in article.find_all(string=True):
        around = list(text.parents)
        names = {x.name for x in around}
        formula = "math" in text.parent.get("class", [])
        if "p" not in names or names.intersection(NOT_TEXT) or formula:
            continue
        if not any(id(x) in outside for x in around):
            link = next((x["href"] for x in around if x.name == "a"), "")
            if not link or "glossary.html" in link:
                yield text, link


@pytest.mark.parametrize("stem", STEMS)
def test_a_term_is_linked_where_a_chapter_first_uses_it(stem, book):
    """And, where it comes back much later, at most once more."""
    own = [x for x in pages() if x.startswith(f"notebooks/{stem}")]
    articles = [soup(book / f"{x}.html").find("article") for x in own]
    texts = [x for article in articles for x in prose(article)]
    links = [x["href"] for y in articles for x in y.find_all("a", href=True)]
    used, missing = set(), set()
    for term in targets().terms.keys() - EVERYDAY.split():
        first, rest = term[0], re.sub("(?<!s)s$", "", term[1:])
        form = rf"(?i:{re.escape(first)}){re.escape(rest)}s?"
        word = re.compile(rf"(?<![\w-]){form}(?![\w-])")
        place = "../book/glossary.html#term-" + re.sub(r"\W+", "-", term)
        uses = [
            x
            for text, x in texts
            if x == place or rest in text and word.search(text)
        ]
        if uses:
            used.add(term)
        if (uses and uses[0] != place) or links.count(place) > 2:
            missing.add(f"{{term}}`{term}`")
    assert missing == set()
    assert len(used) > 5
    assert not any(x.select(NO_PLACE_FOR_A_LINK) for x in articles)


def test_every_everyday_word_is_a_term_of_the_glossary():
    assert targets().terms.keys() >= {*EVERYDAY.split()}
