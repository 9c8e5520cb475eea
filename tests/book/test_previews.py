"""A link shows what it leads to (WCAG 1.4.13), in a page opened as a file."""

import pytest

from tests.book.conftest import Visit
from tests.book.test_browser import AXE, FOUND
from tests.marks import exhaustive_but

pytestmark = pytest.mark.browser
TERM, FIGURE = "#term-additive-mask", "#fig-causal"
# Stylesheets of a file may not be loaded once more.
VIOLATIONS = FOUND.replace(
    "document, {", "'#preview, [aria-describedby]', {preload: false, "
)
FITS = """() => {
    const box = document.querySelector("#preview").getBoundingClientRect();
    return box.left >= 0 && box.right <= innerWidth && box.top >= 0
        && box.bottom <= innerHeight && preview.contains(
            document.elementFromPoint(box.x + box.width / 2, box.y + 3))
        && document.documentElement.scrollWidth <= innerWidth}"""
THEME = "theme => { document.documentElement.dataset.theme = theme }"
STOPS = "a, button, input, select, [tabindex]"
TAKEN = """ids => ids.filter(
    id => document.querySelectorAll(`[id="${id}"]`).length > 1)"""


@pytest.fixture(scope="module")
def seen(browser, book):
    with Visit(browser, book.as_uri(), "notebooks/03_masks") as opened:
        assert opened.tab.evaluate("window.previews") is None, "not yet loaded"
        yield opened
        assert opened.outside == []
        assert opened.complaints == []


@pytest.fixture
def preview(seen):
    yield seen.tab.locator("#preview")
    seen.tab.mouse.move(1, 1)
    seen.tab.keyboard.press("Escape")


def link_to(seen, place):
    links = f".bd-article a[href*='{place}']:not(.headerlink)"
    link = seen.tab.locator(links).first
    link.evaluate("e => e.scrollIntoView({block: 'center'})")
    return link


def focused(seen, place):
    """A link that the keyboard has come to."""
    link = link_to(seen, place)
    link.focus()
    seen.tab.keyboard.press("Tab")
    seen.tab.keyboard.press("Shift+Tab")
    seen.tab.locator("#preview").wait_for(state="visible")
    return link


def test_a_term_is_previewed_while_the_mouse_is_on_it(seen, preview):
    link = link_to(seen, TERM)
    link.hover()
    preview.wait_for(state="visible")
    assert preview.inner_text().startswith("A float tensor added to the score")
    preview.locator(".katex").wait_for()
    preview.hover()
    seen.tab.wait_for_timeout(400)
    assert preview.is_visible(), "one can point at it"
    seen.tab.mouse.move(1, 1)
    preview.wait_for(state="hidden")


def test_a_source_is_previewed_while_it_has_the_focus(seen, preview):
    link = focused(seen, "bibliography.html#")
    assert "Attention is all you need" in preview.inner_text()
    assert link.get_attribute("aria-describedby") == "preview"
    seen.tab.keyboard.press("Tab")
    assert link.get_attribute("aria-describedby") is None
    link.evaluate("e => document.activeElement.blur()")
    assert preview.is_hidden()


def test_escape_dismisses_a_preview_and_keeps_focus_and_scroll(seen, preview):
    link = focused(seen, "02_scaled_dot_product.html")
    assert preview.inner_text().startswith("Scaled dot-product attention")
    before = seen.tab.evaluate("scrollY")
    seen.tab.keyboard.press("Escape")
    assert preview.is_hidden()
    assert link.evaluate("e => e === document.activeElement")
    assert seen.tab.evaluate("scrollY") == before


@pytest.mark.parametrize("theme", exhaustive_but(["dark"], ["dark", "light"]))
def test_a_figure_is_previewed_whole(seen, preview, theme):
    seen.tab.evaluate(THEME, theme)
    focused(seen, FIGURE)
    assert preview.locator("svg").first.bounding_box()["height"] > 200
    assert preview.locator("figcaption").inner_text().startswith("Fig. 3.1")
    assert preview.locator(STOPS).count() == 0
    own = "e => [...e.querySelectorAll('[id]')].map(x => x.id)"
    ids = preview.evaluate(own)
    assert ids and seen.tab.evaluate(TAKEN, ids) == []
    assert seen.tab.evaluate(FITS)
    seen.tab.evaluate(AXE)
    assert seen.tab.evaluate(VIOLATIONS) == []


def test_a_preview_fits_a_phone_and_touch_follows_the_link(seen, preview):
    size = seen.tab.viewport_size
    seen.tab.set_viewport_size({"width": 390, "height": 844})
    for place in (FIGURE, TERM):
        focused(seen, place)
        assert seen.tab.evaluate(FITS)
        seen.tab.keyboard.press("Escape")
    link = link_to(seen, TERM)
    link.dispatch_event("pointerover", {"pointerType": "touch"})
    seen.tab.wait_for_timeout(500)
    assert preview.is_hidden()
    seen.tab.set_viewport_size(size)
