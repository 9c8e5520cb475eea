"""The start notebook shows where a learner is, and leads to the next cell."""

import pytest
from bs4 import BeautifulSoup

from attn.exercises import APPENDICES, CHAPTERS
from attn.grading.learner.progress import Progress
from attn.grading.learner.start_page import StartPage
from tests.grading.learner.conftest import BEGUN, DONE, exercise_at, pane


def page(entries):
    return BeautifulSoup(StartPage(entries)._repr_html_(), "html.parser")


def test_a_beginner_is_led_to_the_first_chapter():
    begin = page({}).select_one(".next")
    assert begin.a.get_text() == "Begin here"
    assert begin.a["href"] == "01_why_attention.ipynb"
    assert "0 of " in begin.get_text()
    assert repr(StartPage({})).startswith("Chapter 1: Why attention?")


def test_the_page_leads_to_the_open_cell_of_the_chapter_begun():
    seen = page(BEGUN)
    step = seen.select_one(".next")
    assert step.a.get_text() == "Continue here"
    assert step.a["href"].startswith("03_masks.ipynb#")
    assert exercise_at(step.a) == "mask-padding"
    assert "wrong when L < S" in step.get_text()
    assert "wrong when L &lt; S" in str(step)
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


@pytest.mark.browser
@pytest.mark.parametrize(
    ("about", "theme"),
    [
        ('data-jp-theme-light="true"', "light"),
        ('data-jp-theme-light="false"', "dark"),  # of JupyterLab
        ('class="vscode-dark"', "dark"),
    ],
)
def test_the_page_can_be_read_by_all_in_either_theme(browser, about, theme):
    tab = pane(browser, StartPage(BEGUN)._repr_html_(), theme, about)
    blue = tab.locator(".bar span").first.evaluate(
        "e => getComputedStyle(e).backgroundColor"
    )
    assert (blue == "rgb(36, 112, 200)") == (theme == "light")
    tab.close()
