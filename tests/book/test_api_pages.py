"""The API: a page a module, a table of its names, an entry for each."""

import importlib
import inspect
import pydoc
import re

import pytest

from tests.book.pages import API, ROOT, soup
from tests.book.test_browser import results
from tests.book.test_reading import copied
from tests.marks import exhaustive_but

OVERVIEW = "book/api/index"
ROOMS = [page for page in API if page != OVERVIEW]


def modules(page):
    source = (ROOT / f"{page}.md").read_text("utf-8")
    found = re.findall("automodule:: (.*)", source)
    assert found
    return found


def callables(path):
    """Return the public functions and classes of a module, in its order."""
    module = importlib.import_module(path)
    return [x for x in module.__all__ if callable(getattr(module, x))]


@pytest.mark.parametrize("page", ROOMS)
def test_a_table_and_entries_have_every_public_name_in_its_order(book, page):
    article = soup(book / f"{page}.html").find("article")
    entries = [x["id"] for x in article.select("dt.sig[id]")]
    tables = article.select("table.autosummary")
    assert not tables[0].find_previous("dt", class_="sig")
    assert article.h1.get_text().startswith(modules(page)[0])
    for path, table in zip(modules(page), tables, strict=True):
        first = table.find_next("dt", class_="sig")["id"]
        assert first.startswith(f"{path}."), "entries follow their table"
        names = callables(path)
        rows = [row.find_all("td") for row in table.find_all("tr")]
        links = [row[0].a["href"] for row in rows]
        assert links == [f"#{path}.{name}" for name in names]
        assert all(len(row[1].get_text(strip=True)) > 15 for row in rows)
        assert {link[1:] for link in links} <= {*entries}
        every = importlib.import_module(path).__all__
        assert {f"{path}.{name}" for name in every} <= {*entries}


@pytest.mark.parametrize("page", ROOMS)
def test_an_entry_has_its_first_argument_and_describes_each_once(book, page):
    own = tuple(x.__doc__[:15] for x in (bool, dict, float, int, str, tuple))
    for entry in soup(book / f"{page}.html").select("article dt.sig[id]"):
        thing, about = pydoc.locate(entry["id"]), entry.find_next_sibling("dd")
        names = []
        if inspect.isfunction(thing):
            names = [*inspect.signature(thing).parameters]
            names = names[1:] if names[:1] == ["self"] else names
        assert not names or names[0] in entry.get_text(), entry["id"]
        assert not about.get_text().strip().startswith(own), entry["id"]
        rows = about.select(":scope > dl > dd > ul > li")
        texts = [x.get_text() for x in rows]
        said = [x.partition(" – ")[2] or x for x in texts]
        long = [x for x in said if "as in" not in x and len(x) > 9]
        assert len({*long}) == len(long), (entry["id"], said)


def test_the_overview_has_a_card_for_each_page_with_three_calls(book):
    cards = soup(book / f"{OVERVIEW}.html").select(".sd-card")
    found = {}
    for card in cards:
        page, *calls = (a["href"] for a in card.find_all("a"))
        found[f"book/api/{page.removesuffix('.html')}"] = calls
    assert sorted(found) == ROOMS
    for page, calls in found.items():
        entries = soup(book / f"{page}.html").select("dt.sig[id]")
        places = {f"{page.split('/')[-1]}.html#{x['id']}" for x in entries}
        assert len(calls) == 3 and {*calls} <= places


def test_the_search_finds_a_function_by_its_name(visit):
    with visit("search", asked="?q=online_softmax") as seen:
        assert any("attn.functional.online" in x for x in results(seen))
        assert seen.complaints == []


CUT = """() => [...document.querySelectorAll(".bd-sidebar-secondary nav a")]
    .filter(a => a.getClientRects().length && (a.scrollWidth > a.clientWidth
        || a.getBoundingClientRect().right > innerWidth))
    .map(a => a.textContent)"""
#: The page with the longest name is for `make test`.
LONGEST = "book/api/functional"


@pytest.mark.parametrize("page", exhaustive_but([LONGEST], ROOMS))
def test_no_entry_of_the_contents_is_cut(visit, page):
    with visit(page) as seen:
        shown = seen.tab.locator(".bd-sidebar-secondary nav a:visible")
        assert shown.count() > 3
        assert seen.tab.evaluate(CUT) == []


def test_an_example_is_copied_without_prompts_and_results(visit):
    with visit("book/api/masks") as seen:
        entry = seen.tab.locator("[id='attn.masks.sliding_window'] + dd")
        said = copied(seen.tab, entry.locator(".doctest"))
        assert said == "attn.sliding_window(2).dense(4)[0, 0].long()"
