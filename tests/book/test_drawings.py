"""Figures as a reader sees them: legible on a phone, in both themes."""

from itertools import product

import pytest

from tests.book.conftest import Visit
from tests.book.pages import ROOT, chapters
from tests.marks import exhaustive_but

pytestmark = pytest.mark.browser
#: `make test` looks at one chapter in one theme; the others are drawn by the
#: same code.
CHAPTER = "notebooks/08_sdpa"
VIEWS = [*product(chapters(), ("light", "dark"))]
VIEWS = exhaustive_but([(CHAPTER, "light")], VIEWS)
LOOK = (ROOT / "tests" / "book" / "drawings.js").read_text("utf-8")


@pytest.fixture(scope="module", params=VIEWS, ids="-".join)
def opened(request, browser, address):
    """A chapter, opened once: every test makes it as wide as it needs it."""
    page, theme = request.param
    with Visit(browser, address, page, theme) as seen:
        yield seen.tab


def on(tab, width):
    tab.set_viewport_size({"width": width, "height": 900})
    return tab


def test_text_in_a_figure_is_legible_on_a_phone(opened):
    texts = on(opened, 390).evaluate(LOOK)
    figures = {text["figure"] for text in texts}
    assert len(figures) >= 3 and len(texts) > 30
    assert [x for x in texts if x["size"] < 9] == []
    assert [x for x in texts if x["over"]] == []
    assert [x for x in texts if x["outside"] > 6] == []


def test_text_in_a_figure_has_contrast(opened):
    texts = on(opened, 1280).evaluate(LOOK)
    assert len(texts) > 30
    assert [x for x in texts if x["contrast"] < 4.5] == []
    assert [x for x in texts if x["over"]] == []


def the_page(name):
    return pytest.mark.parametrize(
        "opened", [(name, "light")], indirect=True, ids=[name], scope="module"
    )


the_chapter = the_page(CHAPTER)


@the_page("notebooks/12_fused_forward")
def test_a_wide_figure_scrolls_in_its_own_box_with_the_keyboard(opened):
    box = on(opened, 390).locator("#fig-lanes .drawn")
    assert box.evaluate("x => x.scrollWidth > x.clientWidth")
    box.focus()
    opened.keyboard.press("ArrowRight")
    opened.wait_for_function(
        "document.querySelector('#fig-lanes .drawn').scrollLeft > 0"
    )


@the_chapter
def test_figures_fit_on_a_phone(opened):
    wide = "all => all.filter(x => x.scrollWidth > x.clientWidth).length"
    assert on(opened, 390).locator(".drawn").evaluate_all(wide) == 0


@the_chapter
@pytest.mark.parametrize("width, kind", [(390, "narrow"), (1280, "wide")])
def test_phones_get_narrow_drawings_and_desks_wide_ones(opened, width, kind):
    shown = on(opened, width).locator(".drawn:has(svg + svg) svg:visible")
    kinds = shown.evaluate_all("all => all.map(x => x.getAttribute('class'))")
    assert len(kinds) >= 5 and set(kinds) == {kind}
