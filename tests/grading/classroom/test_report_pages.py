"""The pages are complete, safe, accessible, and need no other file."""

import re
from urllib.parse import unquote

import pytest
from bs4 import BeautifulSoup

from attn.grading.classroom.reports import write
from attn.grading.classroom.reports.class_ import Class
from attn.grading.classroom.reports.wording import clean
from attn.grading.classroom.result import Mark
from tests.book.test_browser import AXE, FOUND, ONE_OF_EACH_KIND
from tests.grading.classroom.invented import (
    TILED,
    WORTH,
    a_class,
    graded,
    hostile_class,
    right,
    unreadable,
    wrong,
)


def pages_of(results, out):
    """Write the reports; return each page by its path, read."""
    return {
        path.relative_to(out).as_posix(): BeautifulSoup(
            path.read_text("utf-8"), "html.parser"
        )
        for path in write(Class.of(results), out)
        if path.suffix == ".html"
    }


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return pages_of(hostile_class(), tmp_path_factory.mktemp("hostile"))


def test_text_by_learners_never_becomes_html(hostile):
    for page in hostile.values():
        assert not page.find_all(["script", "img", "link", "iframe"])
        assert len(page.find_all("style")) == 1
        links = {x["href"] for x in page.find_all("a")}
        assert all(x.startswith(("#", "learners/")) for x in links)
        handlers = [
            x for tag in page.find_all() for x in tag.attrs if x[:2] == "on"
        ]
        assert not handlers
        policy = page.find("meta", {"http-equiv": True})["content"]
        assert policy.startswith("default-src 'none'; style-src 'unsafe-inl")


def test_hostile_text_is_shown_escaped(hostile):
    index = hostile["index.html"].get_text()
    everywhere = " ".join(page.get_text() for page in hostile.values())
    for text in ("<script>alert(1)</script>", "{{ 7 * 7 }}{% raw %}"):
        assert text in index and text in everywhere
    assert "nul\\x00inside" in everywhere and "\0" not in everywhere
    assert "back\\u202ewards" in everywhere and "\u202e" not in everywhere


@pytest.mark.parametrize("results", [a_class(40), hostile_class()])
def test_the_class_page_has_every_row_in_both_orders(results, tmp_path):
    pages = pages_of(results, tmp_path)
    page = pages["index.html"]
    learners = {clean(x.learner) for x in results}
    assert len(pages) == 1 + len(learners)
    for order in ("by-name", "by-points"):
        rows = page.select(f".{order} tbody tr")
        assert len(rows) == len(learners)
        for row in rows:
            target = unquote(row.a["href"])
            heading = pages[target].h1.get_text()
            assert heading == row.a.get_text() and heading in learners
    bad = [x for x in results if x.status == "unreadable"]
    first = page.find("section")
    assert first.h2.get_text() == "Could not be read"
    assert len(first.select("li")) == len(bad)
    ids = [tag["id"] for tag in page.find_all(id=True)]
    assert len(ids) == len(set(ids))


def test_the_order_by_points_begins_with_the_fewest(tmp_path):
    page = pages_of(a_class(30), tmp_path)["index.html"]
    cells = [x.get_text() for x in page.select(".by-points td.points")]
    points = [0 if x == "–" else int(x) for x in cells]
    assert points == sorted(points) and points[0] < points[-1]


def test_the_class_page_lists_the_hardest_exercises_and_their_mistakes(
    tmp_path,
):
    three = [
        graded("Ann", right(), wrong("gqa-pool_heads")),
        graded("Ben", right(), wrong("gqa-pool_heads")),
        graded("Cem", right(), wrong("gqa-pool_heads", "died", "")),
    ]
    page = pages_of(three, tmp_path)["index.html"]
    hardest = [x.get_text(" ", strip=True) for x in page.select(".bars > li")]
    assert re.match(r"gqa- ?pool_ ?heads 0 % right: 0 of 3", hardest[0])
    assert f"Most often (2): {TILED}" in hardest[0]
    assert "100 % right: 3 of 3" in hardest[1]
    card = page.find("h3", string=TILED).find_parent("li")
    assert "2 learners" in card.get_text()
    assert [x.get_text() for x in card.find_all("a")] == ["Ann", "Ben"]
    assert "1 wrong answer without a name" in page.get_text()
    assert page.find("dd", string="2"), "the median of 2, 2 and 2 points"


def test_an_empty_class_has_a_page(tmp_path):
    page = pages_of([], tmp_path)["index.html"]
    assert page.h1.get_text() == "Nothing could be graded"
    assert page.find("dd", string="0") and not page.find("table")


def test_a_learners_page_has_each_diagnosis_and_no_other_learner(tmp_path):
    marks = [right(), *(wrong(x, notes=("two cells",)) for x in [*WORTH][1:])]
    results = [graded("Ann", *marks), graded("Ben", right())]
    page = pages_of(results, tmp_path)["learners/Ann.html"]
    cards = {x["id"]: x for x in page.find_all("article")}
    assert list(cards) == [*WORTH]
    assert not cards["gqa-repeat_kv"].find("p")
    card = cards["gqa-pool_heads"]
    assert card.find("p").get_text() == f"This looks like: {TILED}"
    folded = card.details.extract()
    assert "The heads come in tile order." in folded.get_text()
    assert [x.get_text() for x in card.find_all("code")[1:]] == [
        "repeat",
        "repeat_interleave",
    ]
    assert card.pre.get_text().splitlines()[1].startswith("got       -2.179")
    assert card.find(class_="note").get_text() == "two cells"
    text = page.get_text()
    assert "1 of 3 exercises is right" in text
    assert "bubblewrap: no network" in text and "Ben" not in text


CODE = """\
def repeat_kv(x, n_rep):
    # a < b && c </pre><script>alert(1)</script>
    return x"""


def test_a_learners_page_shows_the_code_beside_the_diagnosis(tmp_path):
    marks = [
        wrong(code=CODE),
        right("gqa-pool_heads", code=CODE),
        wrong("gqa-grouped_attention", "not written", "", code=CODE),
    ]
    pages = pages_of([graded("Ann", *marks)], tmp_path)
    page = pages["learners/Ann.html"]
    assert not page.find("script")
    bad, good, open_ = page.find_all("article")
    diagnosis, code = bad.find(class_="beside").find_all("div")
    assert TILED in diagnosis.get_text() and CODE not in diagnosis.get_text()
    assert code.pre.get_text() == CODE
    assert good.details.pre.get_text() == CODE
    assert CODE not in open_.get_text(), "a stub is not shown"
    assert CODE not in pages["index.html"].get_text()


def test_a_page_says_which_submission_counts(tmp_path):
    results = [
        graded("Ann", wrong(), submission="ann/1.ipynb"),
        graded("Ann", right(), submission="ann/2.ipynb"),
        unreadable("Ann", submission="ann/3.ipynb"),
    ]
    page = pages_of(results, tmp_path)["learners/Ann.html"]
    sections = [x.get_text(" ", strip=True) for x in page.select("section")]
    unread, counted, again = sections
    assert "ann/3.ipynb" in unread and "ann/2.ipynb" in counted
    assert "ann/1.ipynb : 0 of 2 points" in again


SIZES = [(1280, "light"), (390, "dark")]


@pytest.mark.browser
def test_pages_are_accessible_offline_and_fit_a_phone(browser, tmp_path):
    many = [Mark(f"sdpa-causal_lower_{i}", 0, 1, "died") for i in range(12)]
    results = [
        *a_class(12),
        graded("Ann", wrong(code=CODE), right("gqa-pool_heads", code=CODE)),
        graded("Ann", *many, chapter="08_sdpa"),
    ]
    by_hand = {("Ann", ""): (2, "ill")}
    write(Class.of(results, by_hand, absent=["Cem"]), tmp_path)
    names = ("index", "learners/Ann", "learners/Cem")
    paths = [tmp_path / f"{name}.html" for name in names]
    for width, theme in SIZES:
        size = {"width": width, "height": 900}
        tab = browser.new_page(viewport=size, color_scheme=theme)
        requests, complaints = [], []
        tab.on("request", lambda x, to=requests: to.append(x.url))
        tab.on("console", lambda x, to=complaints: to.append(x.text))
        for path in paths:
            tab.goto(path.as_uri())
            wide = tab.evaluate("document.documentElement.scrollWidth")
            assert wide <= width
            tab.evaluate(AXE)
            tab.evaluate(ONE_OF_EACH_KIND)
            assert tab.evaluate(FOUND) == []
        assert len(requests) == len(paths) and not complaints


@pytest.mark.browser
def test_the_class_page_is_sorted_without_javascript(browser, tmp_path):
    write(Class.of(a_class(12)), tmp_path)
    tab = browser.new_page(java_script_enabled=False)
    tab.goto((tmp_path / "index.html").as_uri())
    tables = tab.locator(".by-name"), tab.locator(".by-points")
    assert [x.is_visible() for x in tables] == [True, False]
    tab.get_by_label("fewest points first").check()
    assert [x.is_visible() for x in tables] == [False, True]
