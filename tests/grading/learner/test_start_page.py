"""The start notebook shows where a learner is, and leads to the next cell."""

import pytest
from bs4 import BeautifulSoup

from attn.exercises import APPENDICES, CHAPTERS
from attn.grading.learner.progress import Progress
from attn.grading.learner.start_page import StartPage
from attn.publishing.myst_to_markdown import copy_of
from attn.publishing.myst_to_markdown.targets import notebook as pristine
from tests.book.test_browser import AXE, FOUND

DONE = {"passed": "2026-11-22 12:00", "attempts": 2}


def page(entries):
    return BeautifulSoup(StartPage(entries)._repr_html_(), "html.parser")


def test_a_beginner_is_led_to_the_first_chapter():
    begin = page({}).select_one(".next")
    assert begin.a.get_text() == "Begin here"
    assert begin.a["href"] == "01_why_attention.ipynb"
    assert "0 of " in begin.get_text()
    assert repr(StartPage({})).startswith("Chapter 1: Why attention?")


def test_the_page_leads_to_the_open_cell_of_the_chapter_begun():
    wrong = {"attempts": 1, "last": "wrong when L < S"}
    seen = page({"mask-causal": DONE, "mask-padding": wrong})
    step = seen.select_one(".next")
    assert step.a.get_text() == "Continue here"
    file, _, cell = step.a["href"].partition("#cell-id=")
    assert file == "03_masks.ipynb"
    copied = copy_of(pristine("03_masks"), set_up=False)["cells"]
    stub = next(x for x in copied if x["id"] == cell)
    assert stub["metadata"]["nbgrader"]["grade_id"] == "mask-padding"
    assert "wrong when L < S" in step.get_text()
    assert "<" not in str(step).partition("wrong when L ")[2][:1]
    [here] = seen.select("li.here")
    assert here.a.get_text() == "3 Masks"
    assert "1 of 13 points" in here.get_text()


def test_a_card_for_each_chapter_has_its_picture_minutes_and_summary():
    cards = page({}).select(".cards li")
    stems = [*CHAPTERS.values(), *APPENDICES]
    assert [x.a["href"] for x in cards] == [f"{stem}.ipynb" for stem in stems]
    for card, stem in zip(cards, stems, strict=True):
        assert card.svg.path and not card.select("text")
        assert len(card.select_one(".quiet").get_text()) > 80
        minutes = stem in CHAPTERS.values()
        assert (" minutes" in card.get_text()) == minutes


def test_chapters_that_are_done_and_a_book_that_is_done_say_so():
    rows = Progress({}).rows
    first = {x.exercise.id: DONE for x in rows if x.stem == "01_why_attention"}
    assert len(page(first).select("li.done")) == 1
    every = page({x.exercise.id: DONE for x in rows})
    assert len(every.select("li.done")) == len(CHAPTERS)
    assert "The book is done" in every.select_one(".next").get_text()
    assert not every.select(".next a")


#: How JupyterLab and VS Code say that they are dark.
DARK = ('data-jp-theme-light="false"', 'class="vscode-dark"')


@pytest.mark.browser
@pytest.mark.parametrize(
    ("about", "ground"),
    [('data-jp-theme-light="true"', "#fff"), *((x, "#111") for x in DARK)],
)
def test_the_page_can_be_read_by_all_in_either_theme(browser, about, ground):
    ink = "#ddd" if ground == "#111" else "#222"
    link = "#7cc4d4" if ground == "#111" else "#0b6474"
    tab = browser.new_page(viewport={"width": 390, "height": 900})
    tab.set_content(
        f'<html lang="en"><title>x</title><body {about} style="'
        f"background: {ground}; color: {ink}; --jp-layout-color0: {ground}; "
        f'--jp-content-link-color: {link}"><main><h1>x</h1>'
        f"{StartPage({'mask-causal': DONE})._repr_html_()}</main>"
    )
    tab.evaluate(AXE)
    assert tab.evaluate(FOUND) == []
    fits = "document.documentElement.scrollWidth <= innerWidth"
    assert tab.evaluate(fits)
    blue = tab.locator(".bar span").first.evaluate(
        "e => getComputedStyle(e).backgroundColor"
    )
    light = "rgb(36, 112, 200)"
    assert (blue == light) == (ground == "#fff")
    tab.close()
