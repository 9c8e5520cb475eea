"""Chapters link the terms of the glossary, each where it is first used."""

import re
from functools import partial
from itertools import takewhile
from operator import is_not

import pytest

from attn.publishing.myst_to_markdown.targets import targets
from tests.book.pages import pages, soup
from tests.book.test_copies import STEMS

ASIDE = {"figure", "table", "details"}
ASIDE_BY_CLASS = {"admonition", "exercise-card", "cell", "sd-card"}
NO_PLACE_FOR_A_LINK = {"h1", "h2", "h3", "h4", "figcaption"}
NOT_TEXT = ("code", "pre", "h1", "h2", "h3", "h4")

#: Words that have other meanings, too ("kernel regression", "the weights of
#: the model"): linked where a link helps.
EVERYDAY = """
    bias grid head kernel key mask query rank scale scores tile value weights
"""


def is_aside(tag):
    return tag.name in ASIDE or ASIDE_BY_CLASS & {*tag.get("class", ())}


def prose(article):
    """The texts of a chapter's paragraphs, those of terms with their link."""
    for paragraph in article.find_all("p"):
        if any(map(is_aside, paragraph.parents)):
            continue
        for text in paragraph.find_all(string=True):
            around = [*takewhile(partial(is_not, paragraph), text.parents)]
            formula = "math" in text.parent.get("class", [])
            code = any(x.name in NOT_TEXT or is_aside(x) for x in around)
            if not formula and not code:
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
    linked = [x for y in articles for x in y.find_all(class_="std-term")]
    assert linked
    around = [x for term in linked for x in term.parents]
    assert not NO_PLACE_FOR_A_LINK & {x.name for x in around}
    assert not any("exercise-card" in x.get("class", ()) for x in around)


def test_every_everyday_word_is_a_term_of_the_glossary():
    assert targets().terms.keys() >= {*EVERYDAY.split()}
