"""The appendix for teachers: every mistake, once, as a diff."""

import re
from html import unescape

import pytest

from attn.data.book import root
from attn.exercises import CHAPTERS, edits, sources
from attn.exercises.changes import changes
from book.speed import MEASURED
from tests.book.test_browser import (
    ONE_OF_EACH_KIND,
    OPEN_ALL,
    serious_violations,
    sideways_overflow,
)
from tests.marks import exhaustive_but

PAGES = [f"book/mistakes/{key}" for key in CHAPTERS]
BOX = r"<summary>(.+)</summary>\n<p>(.+)</p>\n"
BOX += r'(<div class="highlight-diff[\s\S]+?)</details>'
SCROLLING = """[...document.querySelectorAll(".bd-article pre")]
    .filter(e => e.scrollWidth > e.clientWidth + 1)
    .map(e => e.textContent.slice(0, 80))"""


def text(html):
    """The words of a piece of a page."""
    return unescape(re.sub(r"<[^>]+>", "", html))


def lines(source):
    """Lines without indentation: a diff is dedented."""
    return [line.strip() for line in source.splitlines() if line.strip()]


@pytest.mark.parametrize("key", CHAPTERS)
def test_a_page_has_every_mistake_of_its_chapter_once(key, book):
    """Under its exercise, with its explanation and a diff of some lines."""
    page = (book / "book" / "mistakes" / f"{key}.html").read_text("utf-8")
    begin = r'<section class="mistakes" id="(\w+)">\n<h2>'
    _, *sections = re.split(begin, page)
    found = dict(zip(sections[::2], sections[1::2], strict=True))
    assert [*found] == sources.names(key)
    for name, html in found.items():
        boxes = re.findall(BOX, html)
        entries = sources.text(f"{key}-{name}").mistakes
        names = [text(x) for x, *_ in boxes]
        assert names and names == [x.name for x in entries]
        assert all("?" in why for _, why, _ in boxes)
        for entry, (*_, diffs) in zip(entries, boxes, strict=True):
            shown = diffs.split('<div class="highlight-diff')[1:]
            assert len(shown) == len(entry.edits)
            assert all(re.search(r'class="g[di]"', x) for x in shown)


@pytest.mark.parametrize("key", CHAPTERS)
def test_a_diff_makes_the_mistake_of_the_solution(key):
    for name in sources.names(key):
        right = sources.solution(f"{key}-{name}")
        entries = sources.text(f"{key}-{name}").mistakes
        labelled = [y for x in entries for y in x.labelled()]
        diffs = [y for *_, x in changes(f"{key}-{name}") for y in x]
        for (title, code), diff in zip(labelled, diffs, strict=True):
            made = lines(edits.without_docstrings(right))
            at = 0
            for hunk in diff.split("…\n"):
                signs = [(x[0], x[1:].strip()) for x in hunk.splitlines()]
                old = [x for sign, x in signs if sign in " -"]
                new = [x for sign, x in signs if sign in " +"]
                while made[at : at + len(old)] != old:
                    at += 1
                    assert at < len(made), title
                made[at : at + len(old)] = new
                at += len(new)
            assert made == lines(edits.edited(right, code)), title


def test_the_appendix_leads_to_each_exercise_and_has_the_readmes_numbers(book):
    """Whatever chapters there are; test_pages.py follows the links."""
    html = (book / "book" / "mistakes.html").read_text("utf-8")
    links = re.findall(r'<a href="mistakes/(\w+).html#(\w+)"', html)
    assert links == [(x, name) for x in CHAPTERS for name in sources.names(x)]
    readme = (root() / "README.md").read_text("utf-8")
    stated = re.search(r"(\d+) wrong answers .* under (\d+) names", readme)
    wrong, names = (f"{int(x):,}" for x in stated.groups())
    assert f"{wrong} wrong answers and give them {names} names" in html


def test_the_search_does_not_find_these_pages(book):
    index = (book / "searchindex.js").read_text("utf-8")
    assert '"book/mistakes"' in index and '"book/mistakes/' not in index


@pytest.mark.browser
@pytest.mark.parametrize("page", exhaustive_but(["book/mistakes/why"], PAGES))
def test_a_page_is_accessible_fits_a_phone_and_wraps_its_diffs(page, visit):
    with visit(page, theme="dark", width=390) as seen:
        seen.tab.evaluate(OPEN_ALL)
        assert serious_violations(seen, "dark", ONE_OF_EACH_KIND) == []
        assert sideways_overflow(seen) <= 0
        assert seen.tab.evaluate(MEASURED)["page"] <= 1_500_000
        assert seen.outside == [] and seen.complaints == []
        seen.tab.set_viewport_size({"width": 1280, "height": 900})
        assert seen.tab.evaluate(SCROLLING) == []
